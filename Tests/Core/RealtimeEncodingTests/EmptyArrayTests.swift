import RealtimeCoding
import RealtimeCrypto
import RealtimeEncoding
import TestSupport
import Testing

/// All empty arrays share storage. The initializers and `append` functions of arrays that pass uninitialized memory to a closure write the
/// count there, even if it is zero: a race that ThreadSanitizer reports in each application that uses such code on two threads. These tests
/// fail under ThreadSanitizer only.
@Suite struct EmptyArrayTests {
    @Test func `encoding nothing as Base64 writes nothing`() async {
        await self.repeatOnThreads {
            expectEqual(Base64.encode([]), "")
            expectEqual(Base64.decode(""), [])
        }
    }

    @Test func `an encrypted text of no bytes writes nothing`() async throws {
        let key = [UInt8](repeating: 1, count: SecretBox.keyLength)
        let nonce = [UInt8](repeating: 2, count: SecretBox.nonceLength)
        let box = try SecretBox.seal([], key: key, nonce: nonce)
        await self.repeatOnThreads { #expect(try! SecretBox.open(box, key: key, nonce: nonce) == []) }
    }

    @Test func `empty texts in JSON and MessagePack write nothing`() async {
        await self.repeatOnThreads {
            expectEqual(JSONText.unescapedBytes(UnsafeRawBufferPointer(start: nil, count: 0)), [])
            #expect(try! JSONValueEncoder().encodeToString([""]) == #"[""]"#)
            #expect(try! MessagePackEncoder().encode([""]) == [0x91, 0xA0])
        }
    }

    private func repeatOnThreads(_ body: @escaping @Sendable () -> Void) async {
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask { for _ in 0..<100 { body() } }
            }
        }
    }
}
