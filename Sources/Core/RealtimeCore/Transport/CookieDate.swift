/// The dates of cookies, which servers write in many forms.
///
/// Source: RFC 6265, section 5.1.1.
enum CookieDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Returns a date in seconds since 1970, or `nil` if the text isn't one.
    static func seconds(_ text: String) -> Int64? {
        var time: (hour: Int, minute: Int, second: Int)?
        var (day, month, year): (Int?, Int?, Int?)
        for token in text.utf8.split(whereSeparator: self.isDelimiter) {
            if time == nil, let value = self.time(token) {
                time = value
            } else if day == nil, let value = self.number(token, digits: 1...2) {
                day = value
            } else if month == nil, let value = self.month(token) {
                month = value
            } else if year == nil, let value = self.number(token, digits: 2...4) {
                year = value < 70 ? value + 2000 : value < 100 ? value + 1900 : value
            }
        }
        guard let time, let day, let month, let year, year >= 1601 else { return nil }
        guard time.hour < 24, time.minute < 60, time.second < 60, day >= 1, day <= self.days(in: month, year) else { return nil }
        return self.daysSince1970(year, month, day) * 86_400 + Int64(time.hour * 3600 + time.minute * 60 + time.second)
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
        default: false
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Returns the digits at the beginning of a token, if there are as many.
    private static func number(_ token: Substring.UTF8View.SubSequence, digits: ClosedRange<Int>) -> Int? {
        let own = token.prefix(while: self.isDigit)
        return digits.contains(own.count) ? own.reduce(0) { $0 * 10 + Int($1 - 0x30) } : nil
    }

    private static func time(_ token: Substring.UTF8View.SubSequence) -> (Int, Int, Int)? {
        let parts = token.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].count <= 2, parts[1].count <= 2, parts[0].allSatisfy(self.isDigit),
            parts[1].allSatisfy(self.isDigit), let hour = self.number(parts[0], digits: 1...2),
            let minute = self.number(parts[1], digits: 1...2), let second = self.number(parts[2], digits: 1...2)
        else { return nil }
        return (hour, minute, second)
    }

    /// Returns the number of a month, from 1.
    private static func month(_ token: Substring.UTF8View.SubSequence) -> Int? {
        let name = String(decoding: token.prefix(3), as: UTF8.self).lowercased()
        return self.months.firstIndex(of: name).map { $0 + 1 }
    }

    private static func days(in month: Int, _ year: Int) -> Int {
        switch month {
        case 2: year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
        // In years that begin in March, the day that some years have is the last one.
        let (year, month) = month < 3 ? (year - 1, month + 9) : (year, month - 3)
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1
        // The days from March 1 of the year 0 to January 1, 1970.
        return Int64(days - 719_468)
    }
}
