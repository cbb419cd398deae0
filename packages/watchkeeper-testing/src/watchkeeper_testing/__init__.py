"""What tests need and users may use too: a stub model server, real agent programs, fixtures."""
