-- Windows are written in format 2 from here on. Those of format 1 stay as they are until their connection's next push,
-- and are read; a worker that knows format 1 alone stops, before it reads one that it can't.
UPDATE control SET window_format = greatest(window_format, 2);
