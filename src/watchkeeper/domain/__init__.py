"""The rules, as pure functions: no clock, no ids, no files, no logging.

`task` and `run` are the two state machines; `failure` is what can go wrong and what follows from it; `settlement` turns the facts of a finished
run into an outcome and a disposition; `evidence` judges what an execution directory tells. Their tables are printed into `docs/rules.md`.
"""
