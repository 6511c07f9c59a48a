-- When a user is looked at next by whoever sends silent pushes. `due_at` (microseconds since 1970) is a lower bound,
-- kept lazily: a row is made and brought forward when a missing condition comes true (a first or a renewed
-- connection of an on-device source), and not moved by every push, so that a push costs no index update.
-- Written under the account's lock only.
CREATE TABLE wake_schedule (
    user_id uuid PRIMARY KEY,
    due_at bigint NOT NULL,
    last_wake_at bigint NOT NULL DEFAULT 0,
    -- Wakes in a row that no push of an on-device source has answered.
    unanswered smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 90);

CREATE INDEX wake_schedule_due ON wake_schedule (due_at);
