-- How the database's clock last went forward by itself, as a worker saw it beside a clock that never does: wakes of before
-- must not be taken for older than they are, or somebody is woken twice in a spacing. In microseconds.
ALTER TABLE wake_control
    -- What the clock would have said without the jump when it was noticed: no time of before is later.
    ADD COLUMN clock_jumped_through bigint NOT NULL DEFAULT 0,
    -- By how much; 0 for none.
    ADD COLUMN clock_jumped_by bigint NOT NULL DEFAULT 0;

-- As before, for one that was received up to a minute before its wake, by another clock, the wake's own time.
COMMENT ON COLUMN push_sends.answered_at IS 'Received-at of the next push of a phone, or wake_at if that is later.';
