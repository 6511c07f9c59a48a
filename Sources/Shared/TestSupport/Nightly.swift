import Foundation

/// Tests that take minutes run where `DAYBOOK_NIGHTLY` is 1 (`make nightly`); the gate runs a short form of each.
public enum Nightly {
    public static let isOn = ProcessInfo.processInfo.environment["DAYBOOK_NIGHTLY"] == "1"
}
