import PrimusClient

/// The error with which a service of Feathers answers. An error of another type that the service throws has only a message.
nonisolated struct FeathersError: Error, Codable, Sendable, CustomStringConvertible {
    let name: String?
    let message: String
    let code: Int?

    var description: String { "\(self.name ?? "Error") (\(self.code ?? 500)): \(self.message)" }
}

/// A service of a Feathers application, at the other end of a connection.
///
/// A method is an event of primus-emitter with the path of the service, the arguments and a query. The acknowledgement has an error, or `null`
/// and the result.
nonisolated struct FeathersService<Item: Codable & Sendable>: Sendable {
    typealias Query = [String: PrimusValue]

    let path: String
    let primus: PrimusConnection

    func find(_ query: Query = [:]) async throws -> [Item] {
        try Self.result(
            await self.emitter.send("find", self.path, query, returning: FeathersError?.self, [Item]?.self, within: .seconds(5)))
    }

    func get(_ id: Int, _ query: Query = [:]) async throws -> Item { try await self.call("get", id, query) }

    func create(_ data: some Encodable & Sendable, _ query: Query = [:]) async throws -> Item { try await self.call("create", data, query) }

    func remove(_ id: Int, _ query: Query = [:]) async throws -> Item { try await self.call("remove", id, query) }

    func patch(_ id: Int, _ data: some Encodable & Sendable, _ query: Query = [:]) async throws -> Item {
        try Self.result(
            await self.emitter.send("patch", self.path, id, data, query, returning: FeathersError?.self, Item?.self, within: .seconds(5)))
    }

    /// The items of an event of the service from now on, such as `created`. Items that can't be decoded are skipped.
    func on(_ event: String) -> some AsyncSequence<Item, Never> & Sendable {
        self.emitter.on("\(self.path) \(event)").compactMap { try? $0.decode(Item.self) }
    }

    private var emitter: PrimusEmitter { self.primus.emitter }

    private func call(_ method: String, _ argument: some Encodable & Sendable, _ query: Query) async throws -> Item {
        try Self.result(
            await self.emitter.send(method, self.path, argument, query, returning: FeathersError?.self, Item?.self, within: .seconds(5)))
    }

    private static func result<Result>(_ acknowledgement: (error: FeathersError?, result: Result?)) throws -> Result {
        if let error = acknowledgement.error { throw error }
        guard let result = acknowledgement.result else {
            throw FeathersError(name: "NoResult", message: "The result is missing.", code: 500)
        }
        return result
    }
}

/// The answer of the service `authentication`.
nonisolated struct FeathersAuthentication: Codable, Sendable {
    let accessToken: String
}
