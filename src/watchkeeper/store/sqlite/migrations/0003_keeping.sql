-- What was let go of: up to this number the journal has gaps.
ALTER TABLE meta ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten >= 0);
