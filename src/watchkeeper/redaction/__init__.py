"""Find secrets in text and hide them: `[redacted NAME]` stands in their place.

    variables      which variables of an environment hold secrets, and which texts those secrets are
    known_tokens   the shapes of well-known secrets: tokens of services, private keys, passwords in URLs
    needles        the encodings of a secret that are searched for
    views          a text with its escapes undone, so that one needle stands for every spelling
    finder         many needles in one text, at once (Aho-Corasick)
    engine         the redactor of a text and of a stream of bytes

Pure functions, like `domain`, and beside it: the package imports no other package of Watchkeeper. `app`, `cli`, `daemon` and `harnesses` may import it.
"""
