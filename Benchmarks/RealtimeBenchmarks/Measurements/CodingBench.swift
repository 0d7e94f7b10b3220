import CommandLineSupport
import RealtimeCoding

/// Measures encoding and decoding of the same values in JSON and in MessagePack.
struct CodingBench {
    /// A value like those in the messages of an application.
    struct Order: Codable, Equatable {
        struct Item: Codable, Equatable {
            var article: String
            var quantity: Int
            var price: Double
        }

        var id: Int
        var customer: String
        var isPaid: Bool
        var note: String?
        var tags: [String]
        var items: [Item]
        var amounts: [String: Double]
    }

    static let orders: [Order] = (0..<20).map { number in
        Order(
            id: 1_000_000 + number, customer: "Customer Number \(number)", isPaid: number % 2 == 0, note: number % 3 == 0 ? "Zürich" : nil,
            tags: ["new", "europe", "priority"],
            items: (0..<5).map { CodingBench.Order.Item(article: "article-\($0)", quantity: $0 + 1, price: 19.99 * Double($0 + 1)) },
            amounts: ["net": 1234.5, "tax": 234.56, "gross": 1469.06])
    }

    let fixture: BenchFixture
    let repetitions: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.repetitions = max(1, min((fixture.messages ?? 20_000) / 20, 1_000_000))
    }

    func callAsFunction() async throws(ToolFailure) {
        let (orders, repetitions) = (Self.orders, self.repetitions)
        let json: [UInt8]
        let messagePack: [UInt8]
        do {
            json = try JSONValueEncoder().encode(orders)
            messagePack = try MessagePackEncoder().encode(orders)
        } catch {
            throw ToolFailure("The values of the benchmark can't be encoded: \(error)")
        }
        func candidate(_ name: String, _ operation: @escaping () throws -> Bool) -> Candidate {
            Candidate(name: name) { () throws(ToolFailure) in
                let start = processTime()
                for _ in 0..<repetitions where (try? operation()) != true { throw ToolFailure("'\(name)' returned a wrong result.") }
                return (processTime() - start) / Double(repetitions * orders.count)
            }
        }
        let rounds = try await Rounds.run(
            [
                candidate("encode, JSON") { try JSONValueEncoder().encode(orders).count == json.count },
                candidate("encode, MessagePack") { try MessagePackEncoder().encode(orders).count == messagePack.count },
                candidate("decode, JSON") { try JSONValueDecoder().decode([Order].self, from: json).count == orders.count },
                candidate("decode, MessagePack") { try MessagePackDecoder().decode([Order].self, from: messagePack).count == orders.count },
            ], rounds: 9)
        for operation in ["encode", "decode"] {
            let (baseline, name) = (operation + ", JSON", operation + ", MessagePack")
            guard let json = rounds.median(baseline), let value = rounds.median(name) else { continue }
            self.fixture.print(BenchResult(baseline + ", an order with 5 items", json, "ns CPU"))
            self.fixture.print(
                BenchResult(name + ", an order with 5 items", value, "ns CPU")
                    .compared(rounds.ratio(name, to: baseline), with: "JSON"))
        }
        self.fixture.print(
            BenchResult("size in MessagePack", Double(messagePack.count) / Double(orders.count), "bytes")
                .compared(Double(messagePack.count) / Double(json.count), with: "JSON"))
    }
}
