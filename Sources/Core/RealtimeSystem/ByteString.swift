#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A string that is compared byte by byte, for names and keys that a protocol compares as bytes.
///
/// `String` compares by canonical equivalence: an "é" of one scalar equals an "é" of two. On the wire these are different names. Use this
/// type for the keys of dictionaries and for comparisons wherever a string comes from a peer.
@usableFromInline
package struct ByteString: Hashable, Comparable, Sendable {
    /// The string, with the same bytes.
    package let string: String

    package init(_ string: String) {
        var string = string
        // A string that was bridged from Objective-C may be stored in another encoding.
        string.makeContiguousUTF8()
        self.string = string
    }

    @usableFromInline
    package static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.withBytes { lhs in rhs.withBytes { rhs in lhs.count == rhs.count && Self.order(lhs, rhs, lhs.count) == 0 } }
    }

    /// Returns whether the bytes of the left string come first in lexicographic order.
    @usableFromInline
    package static func < (lhs: Self, rhs: Self) -> Bool {
        lhs.withBytes { lhs in
            rhs.withBytes { rhs in
                let order = Self.order(lhs, rhs, min(lhs.count, rhs.count))
                return order == 0 ? lhs.count < rhs.count : order < 0
            }
        }
    }

    @usableFromInline
    package func hash(into hasher: inout Hasher) {
        self.withBytes { hasher.combine(bytes: $0) }
        // A byte that isn't part of UTF-8 separates the string from what is hashed after it.
        hasher.combine(0xFF as UInt8)
    }

    private func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        // Contiguous since the initializer, so there are always bytes.
        let result = self.string.utf8.withContiguousStorageIfAvailable { body(UnsafeRawBufferPointer($0)) }
        return result ?? body(UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private static func order(_ lhs: UnsafeRawBufferPointer, _ rhs: UnsafeRawBufferPointer, _ count: Int) -> Int32 {
        guard count > 0, let lhs = lhs.baseAddress, let rhs = rhs.baseAddress else { return 0 }
        return memcmp(lhs, rhs, count)
    }
}

extension ByteString: CustomStringConvertible {
    @usableFromInline package var description: String { self.string }
}
