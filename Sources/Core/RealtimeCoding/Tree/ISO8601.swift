/// Dates such as `2026-01-31T12:00:00Z`, in the proleptic Gregorian calendar.
///
/// Calculations use `Int64`: on platforms where `Int` has 32 bits, it would overflow in 2038.
enum ISO8601 {
    /// Parses a date with an optional fraction of a second, and a time zone of `Z`, `+hh:mm`, `+hhmm` or `+hh`.
    ///
    /// The result is relative to 2001, as `Date` is, because more of a fraction is lost in larger numbers.
    ///
    /// - Parameters:
    ///   - text: The date.
    ///   - assumesUTC: Whether a date without a time zone, or without a time, is in UTC instead of invalid.
    /// - Returns: The seconds since the start of 2001 in UTC, or `nil` if the text is not a date in this format.
    static func secondsSince2001(_ text: String, assumesUTC: Bool = false) -> Double? {
        var reader = Reader(rest: Array(text.utf8)[...])
        guard let year = reader.number(4), reader.take("-"), let month = reader.number(2), reader.take("-"), let day = reader.number(2),
            (1...12).contains(month), (1...Self.length(ofMonth: month, year)).contains(day)
        else { return nil }
        let midnight = Self.days(year, month, day) * 86400 - self.secondsTo2001
        if assumesUTC, reader.rest.isEmpty { return Double(midnight) }
        guard reader.take("T") || reader.take("t"), let hour = reader.number(2), reader.take(":"), let minute = reader.number(2),
            reader.take(":"), let second = reader.number(2)
        else { return nil }
        guard minute < 60, second <= 60, hour < 24 || (hour == 24 && minute == 0 && second == 0), let fraction = reader.fraction() else {
            return nil
        }
        let isUTC = assumesUTC && reader.rest.isEmpty
        guard let offset = isUTC ? 0 : reader.offset(), reader.rest.isEmpty else { return nil }
        return Double(midnight + hour * 3600 + minute * 60 + second - offset) + fraction
    }

    /// Formats a date in UTC.
    ///
    /// Years after 9999 have more than four digits, and years before 0 a minus sign.
    ///
    /// - Parameters:
    ///   - seconds: The seconds since the start of 2001 in UTC.
    ///   - fractionDigits: The maximum number of digits of the fraction, up to nine. With none, the date is rounded down to a second.
    /// - Returns: The text, or `nil` if the date is not finite or more than four million years from 2001.
    static func text(secondsSince2001 seconds: Double, fractionDigits: Int) -> String? {
        let whole = seconds.rounded(.down)
        guard let second = Int64(exactly: whole).map({ $0 &+ self.secondsTo2001 }), second.magnitude < 1 << 47 else { return nil }
        let day = (second >= 0 ? second : second - 86399) / 86400
        let rest = second - day * 86400
        let (year, month, date) = Self.civil(day)
        return self.padded(year, 4) + "-" + self.padded(month) + "-" + self.padded(date) + "T" + self.padded(rest / 3600) + ":"
            + self.padded(rest / 60 % 60) + ":" + self.padded(rest % 60) + self.fraction(of: seconds, after: whole, fractionDigits) + "Z"
    }

    /// The seconds from 1970 to 2001.
    private static var secondsTo2001: Int64 { Int64(referenceDateOffset) }

    private static func padded(_ value: Int64, _ width: Int = 2) -> String {
        let digits = String(value.magnitude)
        return (value < 0 ? "-" : "") + String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// The shortest fraction that reads back as the same date. If none does, the nearest one with the maximum number of digits.
    private static func fraction(of seconds: Double, after whole: Double, _ maximum: Int) -> String {
        let fraction = seconds - whole
        guard fraction > 0, maximum > 0 else { return "" }
        var scale: Double = 1
        var digits = 0
        var value: Double = 0
        repeat {
            digits += 1
            scale *= 10
            // A fraction that is rounded to a whole second would change the digits before it.
            value = min((fraction * scale).rounded(), scale - 1)
        } while digits < maximum && whole + value / scale != seconds
        while value.truncatingRemainder(dividingBy: 10) == 0, digits > 0 {
            value /= 10
            digits -= 1
        }
        return digits > 0 ? "." + self.padded(Int64(value), digits) : ""
    }

    private static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    private static func length(ofMonth month: Int64, _ year: Int64) -> Int64 {
        switch month {
        case 2: self.isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// The number of days since 1970. Internally, years start in March, so that the leap day is their last day.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let year = month > 2 ? year : year - 1
        let month = (month + 9) % 12
        return 365 * year + Self.floor(year, 4) - Self.floor(year, 100) + Self.floor(year, 400) + (153 * month + 2) / 5 + day - 719_469
    }

    /// The date that is `days` after the first of January 1970.
    private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        var year = 1970 + Int64((Double(days) / 365.2425).rounded(.down))
        while self.days(year, 1, 1) > days { year -= 1 }
        while self.days(year + 1, 1, 1) <= days { year += 1 }
        var month: Int64 = 12
        while self.days(year, month, 1) > days { month -= 1 }
        return (year, month, days - self.days(year, month, 1) + 1)
    }

    private static func floor(_ value: Int64, _ divisor: Int64) -> Int64 {
        value >= 0 ? value / divisor : (value - divisor + 1) / divisor
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard self.rest.first == UInt8(ascii: character) else { return false }
            self.rest.removeFirst()
            return true
        }

        mutating func number(_ width: Int) -> Int64? {
            var value: Int64 = 0
            for _ in 0..<width {
                guard let digit = self.digit() else { return nil }
                value = value * 10 + digit
            }
            return value
        }

        mutating func digit() -> Int64? {
            guard let byte = self.rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            self.rest.removeFirst()
            return Int64(byte - UInt8(ascii: "0"))
        }

        /// The fraction of a second, zero if there is none, or `nil` if no digit follows the point.
        mutating func fraction() -> Double? {
            guard self.take(".") else { return 0 }
            var digits = 0
            var value: Double = 0
            var scale: Double = 1
            while let digit = self.digit() {
                digits += 1
                if digits <= 15 {
                    value = value * 10 + Double(digit)
                    scale *= 10
                }
            }
            return digits > 0 ? value / scale : nil
        }

        /// The offset from UTC in seconds, or `nil` if it is missing or invalid.
        mutating func offset() -> Int64? {
            if self.take("Z") || self.take("z") { return 0 }
            let isNegative = self.take("-")
            guard isNegative || self.take("+"), let hours = self.number(2), hours < 24 else { return nil }
            if self.rest.isEmpty { return (isNegative ? -1 : 1) * hours * 3600 }
            _ = self.take(":")
            guard let minutes = self.number(2), minutes < 60 else { return nil }
            return (isNegative ? -1 : 1) * (hours * 3600 + minutes * 60)
        }
    }
}
