/// A PostgreSQL type by its object id, which is the same on every server for the built-in ones.
public struct PostgresType: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// Lets the server infer the type.
    public static let unspecified = PostgresType(rawValue: 0)
    public static let bool = PostgresType(rawValue: 16)
    public static let bytea = PostgresType(rawValue: 17)
    public static let int8 = PostgresType(rawValue: 20)
    public static let int2 = PostgresType(rawValue: 21)
    public static let int4 = PostgresType(rawValue: 23)
    public static let text = PostgresType(rawValue: 25)
    public static let float4 = PostgresType(rawValue: 700)
    public static let float8 = PostgresType(rawValue: 701)
    public static let date = PostgresType(rawValue: 1082)
    public static let timestamptz = PostgresType(rawValue: 1184)
    public static let uuid = PostgresType(rawValue: 2950)
    /// Where a row lies in its table.
    public static let tid = PostgresType(rawValue: 27)

    public static let boolArray = PostgresType(rawValue: 1000)
    public static let byteaArray = PostgresType(rawValue: 1001)
    public static let int8Array = PostgresType(rawValue: 1016)
    public static let int2Array = PostgresType(rawValue: 1005)
    public static let int4Array = PostgresType(rawValue: 1007)
    public static let textArray = PostgresType(rawValue: 1009)
    public static let float4Array = PostgresType(rawValue: 1021)
    public static let float8Array = PostgresType(rawValue: 1022)
    public static let dateArray = PostgresType(rawValue: 1182)
    public static let timestamptzArray = PostgresType(rawValue: 1185)
    public static let uuidArray = PostgresType(rawValue: 2951)
    public static let tidArray = PostgresType(rawValue: 1010)

    /// Types whose binary form is the text's own bytes.
    static let textual: Set<PostgresType> = [
        .text, PostgresType(rawValue: 18), PostgresType(rawValue: 19), PostgresType(rawValue: 114),
        PostgresType(rawValue: 705), PostgresType(rawValue: 1042), PostgresType(rawValue: 1043),
    ]

    /// The type of a one-dimensional array of this one; `unspecified` where Daybook uses none.
    public var array: PostgresType {
        switch self {
        case .bool: .boolArray
        case .bytea: .byteaArray
        case .int8: .int8Array
        case .int2: .int2Array
        case .int4: .int4Array
        case .text: .textArray
        case .float4: .float4Array
        case .float8: .float8Array
        case .date: .dateArray
        case .timestamptz: .timestamptzArray
        case .uuid: .uuidArray
        case .tid: .tidArray
        default: .unspecified
        }
    }
}

/// PostgreSQL counts dates and times from 2000-01-01, Daybook from 1970-01-01. ±infinity keep their meaning: they are
/// the ends of the range on both sides.
enum PostgresEpoch {
    static let days: Int32 = 10_957
    static let microseconds: Int64 = 946_684_800_000_000

    static func toServer(days value: Int32) -> Int32 {
        saturating(value.subtractingReportingOverflow(days), .min)
    }

    static func fromServer(days value: Int32) -> Int32 {
        value == .min || value == .max ? value : saturating(value.addingReportingOverflow(days), .max)
    }

    static func toServer(microseconds value: Int64) -> Int64 {
        saturating(value.subtractingReportingOverflow(microseconds), .min)
    }

    static func fromServer(microseconds value: Int64) -> Int64 {
        value == .min || value == .max ? value : saturating(value.addingReportingOverflow(microseconds), .max)
    }

    private static func saturating<T>(_ result: (partialValue: T, overflow: Bool), _ end: T) -> T {
        result.overflow ? end : result.partialValue
    }
}
