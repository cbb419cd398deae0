-- Skip the numbers that may have been given between a backup and its restore.
BEGIN IMMEDIATE;
UPDATE meta SET fence = max(fence, :seen) + :step WHERE id = 1;
INSERT INTO sqlite_sequence (name, seq)
SELECT 'journal', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'journal');
UPDATE sqlite_sequence SET seq = seq + :step WHERE name = 'journal';
COMMIT;
