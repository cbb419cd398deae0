-- What became of the merge of a task's branch is recorded after its worktree's making, so the rule of 0007 leaves it out already: from the state of the
-- worktree to the end.

COMMENT ON FUNCTION spec_kept() IS 'what became of a worktree, its merge included, may change at any time';
