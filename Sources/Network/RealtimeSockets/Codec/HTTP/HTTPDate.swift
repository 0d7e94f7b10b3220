internal import RealtimeSystem
internal import RealtimeCore

/// The form of the `Date` field (RFC 9110 section 5.6.7).
enum HTTPDate {
    private static let latest = Lock((second: time_t(0), text: ""))

    /// The text of this second, made once.
    static var now: String {
        let second = time_t(WallClock.secondsSince1970)
        return self.latest.withLock { latest in
            if latest.second != second { latest = (second, Self.text(Int(second))) }
            return latest.text
        }
    }

    /// - Parameter second: since the beginning of 1970.
    static func text(_ second: Int) -> String {
        var time = time_t(second)
        var parts = tm()
        gmtime_r(&time, &parts)
        let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Int(parts.tm_wday)]
        let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][Int(parts.tm_mon)]
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let clock = "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
        return "\(day), \(two(parts.tm_mday)) \(month) \(parts.tm_year + 1900) \(clock) GMT"
    }
}
