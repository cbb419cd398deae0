"""Read models for every face: what a person or a program is shown. They change nothing and start nothing.

lookup     from a typed prefix to a task
standing   where a task really stands, from the evidence at this moment
rows       many tasks, one line each
standstill whether something can still happen to tasks that are waited for
detail     one task in full
health     everything at once, in one line
plain      all of it as JSON values, with keys that programs may rely on
"""
