/// The one-time authenticator Poly1305 (RFC 8439, section 2.5).
///
/// The message is a sequence of numbers of 16 bytes, the coefficients of a polynomial. The tag is its value modulo 2^130 - 5, at a point that
/// is one half of the key, plus the other half.
struct Poly1305 {
    /// The point: 124 bits in two limbs.
    private let r0, r1: UInt64
    /// 5/4 of the second limb. Its product with a second limb is a multiple of 2^130, which is 5 modulo 2^130 - 5.
    private let s1: UInt64
    /// The value so far, in two limbs and a few bits.
    private var h0: UInt64 = 0
    private var h1: UInt64 = 0
    private var h2: UInt64 = 0

    /// Returns the tag of a message.
    static func tag(of message: UnsafeRawBufferPointer, key: SalsaKey) -> SIMD2<UInt64> {
        let (point, pad) = (unsafeBitCast(key.low, to: SIMD2<UInt64>.self), unsafeBitCast(key.high, to: SIMD2<UInt64>.self))
        var authenticator = Poly1305(point)
        authenticator.update(message)
        return authenticator.finish(pad)
    }

    private init(_ point: SIMD2<UInt64>) {
        // Without these bits, products of limbs can be added without overflow, and the second limb is a multiple of 4.
        self.r0 = point[0] & 0x0fff_fffc_0fff_ffff
        self.r1 = point[1] & 0x0fff_fffc_0fff_fffc
        self.s1 = self.r1 &+ (self.r1 &>> 2)
    }

    private mutating func update(_ message: UnsafeRawBufferPointer) {
        var copy = self
        var index = 0
        while index &+ 16 <= message.count {
            copy.update(
                message.loadUnaligned(fromByteOffset: index, as: UInt64.self),
                message.loadUnaligned(fromByteOffset: index &+ 8, as: UInt64.self), 1)
            index &+= 16
        }
        if index < message.count {
            // A one bit follows the last bytes, as it follows each complete block.
            var last: (UInt64, UInt64) = (0, 0)
            withUnsafeMutableBytes(of: &last) { last in
                last.copyMemory(from: UnsafeRawBufferPointer(rebasing: message[index...]))
                last[message.count &- index] = 1
            }
            copy.update(last.0, last.1, 0)
        }
        self = copy
    }

    /// Adds a block, and multiplies by the point.
    @inline(__always)
    private mutating func update(_ low: UInt64, _ high: UInt64, _ top: UInt64) {
        let h0 = self.h0.addingReportingOverflow(low)
        let h1 = Self.sum(self.h1, high, h0.overflow)
        let h2 = self.h2 &+ top &+ h1.carry

        var d0 = Wide(h0.partialValue, self.r0)
        d0.add(Wide(h1.value, self.s1))
        var d1 = Wide(h0.partialValue, self.r1)
        d1.add(Wide(h1.value, self.r0))
        d1.add(Wide(high: 0, low: h2 &* self.s1))
        d1.add(Wide(high: 0, low: d0.high))
        let d2 = h2 &* self.r0 &+ d1.high

        // What exceeds 130 bits counts five times.
        let excess = (d2 & ~3) &+ (d2 &>> 2)
        let low = d0.low.addingReportingOverflow(excess)
        let high = Self.sum(d1.low, 0, low.overflow)
        self.h0 = low.partialValue
        self.h1 = high.value
        self.h2 = (d2 & 3) &+ high.carry
    }

    private func finish(_ pad: SIMD2<UInt64>) -> SIMD2<UInt64> {
        // The value is less than twice the modulus. If it isn't less than the modulus, adding 5 carries into bit 130.
        let low = self.h0.addingReportingOverflow(5)
        let high = Self.sum(self.h1, 0, low.overflow)
        let mask = 0 &- ((self.h2 &+ high.carry) &>> 2)
        let h0 = self.h0 ^ ((self.h0 ^ low.partialValue) & mask)
        let h1 = self.h1 ^ ((self.h1 ^ high.value) & mask)
        let sum = h0.addingReportingOverflow(pad[0])
        return SIMD2(sum.partialValue, Self.sum(h1, pad[1], sum.overflow).value)
    }

    @inline(__always)
    private static func sum(_ a: UInt64, _ b: UInt64, _ carry: Bool) -> (value: UInt64, carry: UInt64) {
        let first = a.addingReportingOverflow(b)
        let second = first.partialValue.addingReportingOverflow(carry ? 1 : 0)
        return (second.partialValue, (first.overflow ? 1 : 0) &+ (second.overflow ? 1 : 0))
    }
}

/// A number of 128 bits. The standard library's type requires newer systems.
private struct Wide {
    var high, low: UInt64

    @inline(__always)
    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The product of two numbers.
    @inline(__always)
    init(_ a: UInt64, _ b: UInt64) {
        let product = a.multipliedFullWidth(by: b)
        self.init(high: product.high, low: product.low)
    }

    @inline(__always)
    mutating func add(_ other: Wide) {
        let sum = self.low.addingReportingOverflow(other.low)
        self.low = sum.partialValue
        self.high = self.high &+ other.high &+ (sum.overflow ? 1 : 0)
    }
}
