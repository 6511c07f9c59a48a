/// Why a record can't be applied. The code goes into a header and a metric label: never a value of the record.
public enum PoisonReason: String, Error, CaseIterable, Sendable {
    /// The key is not a user id.
    case badKey = "bad_key"
    /// The record has no value.
    case missingValue = "missing_value"
    case missingHeader = "missing_header"
    /// A schema, or a version of one, that this build does not know.
    case unknownSchema = "unknown_schema"
    case badEventID = "bad_event_id"
    case badReceivedAt = "bad_received_at"
    /// `received-at` is more than five minutes ahead of the broker's append time.
    case clock
    case badJSON = "bad_json"
    case duplicateKey = "duplicate_key"
    /// A member of the record is missing or of another type.
    case badShape = "bad_shape"
    case badSource = "bad_source"
    /// A metric that this build does not know, where one has to be named.
    case badMetric = "bad_metric"
    /// A kind of account or device record that this build does not know.
    case unknownKind = "unknown_kind"
    /// A registered device token without what a sender needs.
    case badDevice = "bad_device"
    /// A point's time is missing, malformed or before 2020.
    case badTimestamp = "bad_timestamp"
    case badOrigin = "bad_origin"
    case badObservedAt = "bad_observed_at"
    /// A date that the calendar does not have, or one in the future.
    case badDate = "bad_date"
    /// A metric that is not a number, or a count with a fraction.
    case badValue = "bad_value"
    /// A metric outside its range.
    case outOfRange = "out_of_range"
    /// Too many days, or too many bytes.
    case tooLarge = "too_large"
    /// One origin more of a source and user than are kept.
    case tooManyOrigins = "too_many_origins"
    /// The database refuses what the record says, although it could be read.
    case refused = "database_refused"

    /// Stable: dashboards and runbooks name it.
    public var code: String { rawValue }
}
