import Foundation
import PrimusClient

/// Values of Primus as objects of Foundation, and the other way round.
enum FoundationValue {
    /// Returns a value as listeners receive it: objects as `[String: Any]`, arrays as `[Any]`, bytes as `Data`, dates as `Date`.
    static func object(_ value: PrimusValue) -> Any {
        switch value {
        case .null: NSNull()
        case .bool(let bool): bool
        case .int(let number): Int(exactly: number) ?? number as Any
        case .double(let number): number
        case .string(let text): text
        case .array(let elements): elements.map { Self.object($0) }
        case .object(let object): Dictionary(object.members.map { ($0.key, Self.object($0.value)) }) { $1 }
        case .bytes(let bytes): Data(bytes)
        // The description of such a `Date` ends the program on some systems.
        case .date(let date) where !date.isValid: NSNull()
        case .date(let date): Date(timeIntervalSince1970: date.milliseconds / 1000)
        case .expression, .typed, .extended: value
        }
    }

    /// Returns a value that can be written.
    ///
    /// - Throws: A `PrimusError` with the code `encodingFailed` that names the type that can't be written.
    static func value(_ object: Any) throws(PrimusError) -> PrimusValue {
        // An array of bytes is an array of numbers, and `Data` is binary.
        switch object {
        case let value as PrimusValue: return value
        case let text as String: return .string(text)
        case let data as Data: return .bytes(Array(data))
        case let date as Date: return .date(PrimusDate(milliseconds: date.timeIntervalSince1970 * 1000))
        case is NSNull: return .null
        case let optional as any OptionalValue:
            guard let wrapped = optional.wrappedValue else { return .null }
            return try Self.value(wrapped)
        default: break
        }
        // Before `NSNumber`, to which numbers of Swift are bridged on Apple platforms.
        switch type(of: object) {
        case is Bool.Type: return .bool(object as? Bool ?? false)
        case is Int.Type: return .int(Int64(object as? Int ?? 0))
        case is Double.Type: return .double(object as? Double ?? .nan)
        default: break
        }
        if let number = object as? NSNumber, !(object is any Encodable) || type(of: object) is NSNumber.Type { return Self.number(number) }
        if let dictionary = object as? [String: Any] {
            var members: [(key: String, value: PrimusValue)] = []
            for (key, value) in dictionary.sorted(by: { $0.key < $1.key }) { members.append((key, try Self.value(value))) }
            return .object(PrimusValue.Object(members))
        }
        if let array = object as? [Any] { return .array(try array.map { element throws(PrimusError) in try Self.value(element) }) }
        switch object {
        case let text as NSString: return .string("\(text)")
        case let array as NSArray: return .array(try array.map(\.self).map { element throws(PrimusError) in try Self.value(element) })
        case let dictionary as NSDictionary:
            var members: [(key: String, value: PrimusValue)] = []
            for (key, value) in dictionary { members.append(("\(key)", try Self.value(value))) }
            return .object(PrimusValue.Object(members.sorted { $0.key < $1.key }))
        case let encodable as any Encodable:
            do {
                return try PrimusValue(encoding: encodable)
            } catch {
                throw PrimusError(
                    .encodingFailed, "The value of the type \(type(of: object)) can't be encoded, and wasn't sent.", cause: error)
            }
        default:
            let message =
                "A value of the type \(type(of: object)) can't be sent. Use a dictionary, an array, a string, a number, data, or a type that is "
                + "Encodable."
            throw PrimusError(.encodingFailed, message)
        }
    }

    private static func number(_ number: NSNumber) -> PrimusValue {
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "d"), UInt8(ascii: "f"): return .double(number.doubleValue)
        case UInt8(ascii: "Q") where number.uint64Value > Int64.max: return .double(number.doubleValue)
        case UInt8(ascii: "c"), UInt8(ascii: "B"):
            // What `JSONSerialization` writes tells a Boolean from a number on all systems.
            let text = (try? JSONSerialization.data(withJSONObject: [number])).map { String(decoding: $0, as: UTF8.self) }
            if text == "[true]" || text == "[false]" { return .bool(number.boolValue) }
            return .int(number.int64Value)
        default: return .int(number.int64Value)
        }
    }
}

/// An optional of any type.
private protocol OptionalValue {
    var wrappedValue: Any? { get }
}

extension Optional: OptionalValue {
    fileprivate var wrappedValue: Any? { self.map { $0 as Any } }
}
