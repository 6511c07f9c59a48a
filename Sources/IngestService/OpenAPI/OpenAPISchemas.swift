import Domain

/// Schemas that several routes share, made from the ledger where it knows.
enum OpenAPISchemas {
    static var all: [(name: String, json: String)] {
        [
            ("Source", #"{"enum":[\#(quoted(Source.allCases.map(\.description)))]}"#),
            ("Metric", #"{"enum":[\#(quoted(Metric.allCases.map(\.description)))]}"#),
            ("Day", day),
            ("DaysRequest", daysRequest),
            ("DaysAnswer", daysAnswer),
            ("WrittenAnswer", writtenAnswer),
            ("FieldError", fieldError),
            ("Problem", problem),
        ]
    }

    private static func quoted(_ names: [String]) -> String {
        names.map { #""\#($0)""# }.joined(separator: ",")
    }

    private static var day: String {
        let metrics = MetricLedger.definitions.map { definition in
            let type = definition.isWhole ? "integer" : "number"
            let range = definition.tenths
            // A zero is taken everywhere, and dropped.
            let low = definition.zeroIsNeverRead ? 0 : range.lowerBound / 10
            let zero = definition.zeroIsNeverRead ? #" From \#(range.lowerBound / 10) on; a 0 is no reading."# : ""
            return
                #""\#(definition.name)":{"type":["\#(type)","null"],"minimum":\#(low),"maximum":\#(range.upperBound / 10),"#
                + #""description":"In \#(definition.unit).\#(zero)"}"#
        }
        return #"{"type":"object","required":["date"],"properties":{"date":{"type":"string","format":"date","#
            + #""description":"The phone's local calendar day."},"# + metrics.joined(separator: ",") + "}}"
    }

    private static let daysRequest =
        ##"{"type":"object","required":["source","days"],"properties":{"source":{"$ref":"#/components/schemas/Source"},"##
        + #""origin":{"type":["string","null"],"maxLength":128,"description":"Only where the platform has not merged "#
        + #"devices. In bytes of UTF-8."},"#
        + #""observed_at":{"type":["string","null"],"format":"date-time","description":"When the phone read its store."},"#
        + #""time_zone":{"type":["string","null"],"description":"IANA; else the token's, else X-Time-Zone."},"#
        + #""zeros":{"enum":["missing","observed",null],"default":"missing"},"#
        + ##""days":{"type":"array","minItems":1,"maxItems":400,"items":{"$ref":"#/components/schemas/Day"}}}}"##

    private static let daysAnswer =
        #"{"type":"object","required":["accepted","skipped","errors","event_id","position"],"properties":{"#
        + #""accepted":{"type":"integer","minimum":0},"#
        + #""skipped":{"type":"array","items":{"type":"object","required":["index","date","code"],"properties":{"#
        + ##""index":{"type":"integer"},"date":{"type":"string","format":"date"},"field":{"$ref":"#/components/schemas/Metric"},"##
        + #""code":{"enum":["too_old","too_far_ahead","duplicate_date","zero","empty"]}}}},"#
        + ##""errors":{"type":"array","items":{"$ref":"#/components/schemas/FieldError"}},"##
        + #""event_id":{"type":"string","format":"uuid"},"position":{"type":"string","description":"Opaque."}}}"#

    private static let writtenAnswer =
        #"{"type":"object","required":["event_id","position"],"properties":{"#
        + #""event_id":{"type":"string","format":"uuid"},"position":{"type":"string","description":"Opaque."}}}"#

    private static let fieldError =
        #"{"type":"object","required":["field","code","message"],"properties":{"#
        + #""index":{"type":"integer","description":"The item; without it: a field of the request."},"#
        + #""field":{"type":"string","description":"The field's path; never its value."},"#
        + #""code":{"type":"string","pattern":"^[a-z0-9_]+$"},"message":{"type":"string"}}}"#

    private static let problem =
        #"{"type":"object","required":["type","title","status","code"],"properties":{"#
        + #""type":{"type":"string","format":"uri"},"title":{"type":"string"},"status":{"type":"integer"},"#
        + #""code":{"type":"string","pattern":"^[a-z0-9_]+$"},"detail":{"type":"string","description":"What to do next."},"#
        + #""instance":{"type":"string","format":"uri","description":"The request's id, for questions to the operator."},"#
        + ##""errors":{"type":"array","items":{"$ref":"#/components/schemas/FieldError"}}}}"##
}
