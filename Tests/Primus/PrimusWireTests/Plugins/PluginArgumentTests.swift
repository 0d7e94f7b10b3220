import PrimusWire
import TestSupport
import Testing

@Suite struct PluginArgumentTests {
    private struct Todo: Codable, Hashable {
        var id: Int
        var title: String?
    }

    @Test(arguments: codings)
    func `arguments are decoded as their types`(coding: PrimusCoding) throws {
        let arguments = try PrimusArguments("find", "todos", 5, [Todo(id: 1, title: "é")], 1.5, true, Int?.none, in: coding)
        let (name, number, todos, double, flag, none) = try arguments.decode(
            String.self, Int.self, [Todo].self, Double.self, Bool.self, Int?.self)
        expect(name == "todos" && number == 5 && double == 1.5 && flag && none == nil)
        expectEqual(todos, [Todo(id: 1, title: "é")])
        try expectEqual(arguments.values().count, 6)
    }

    @Test(arguments: codings)
    func `there may be more arguments than types`(coding: PrimusCoding) throws {
        let arguments = try PrimusArguments(nil, "a", 2, in: coding)
        try expectEqual(arguments.decode(String.self), "a")
        try arguments.decode()
    }

    @Test(arguments: codings)
    func `a missing argument of an optional type is nil`(coding: PrimusCoding) throws {
        let (name, count, flag) = try PrimusArguments("event", "a", in: coding).decode(String.self, Int?.self, Bool?.self)
        expect(name == "a" && count == nil && flag == nil)
    }

    @Test(arguments: codings)
    func `a missing argument is an error with its position`(coding: PrimusCoding) throws {
        let error = #expect(throws: PrimusArgumentError.self) {
            _ = try PrimusArguments("event", "a", in: coding).decode(String.self, Int.self)
        }
        expectEqual(error?.index, 1)
        expectEqual(error?.description, "Argument 2 of type Int is missing.")
    }

    @Test(arguments: codings)
    func `an argument of another type is an error without the value`(coding: PrimusCoding) throws {
        let error = #expect(throws: PrimusArgumentError.self) {
            _ = try PrimusArguments(nil, "a", "secret", in: coding).decode(String.self, Int.self)
        }
        expectEqual(error?.index, 1)
        expect(error?.underlying != nil)
        expectEqual(error?.description.hasPrefix("Argument 2 can't be decoded as Int"), true)
        expectEqual(error?.description.contains("secret"), false)
    }

    @Test(arguments: codings)
    func `arguments from trees are the same as those from values`(coding: PrimusCoding) throws {
        let trees = try PrimusArguments("event", values: ["a", 2, .null], in: coding)
        try expectEqual(trees, PrimusArguments("event", "a", 2, Int?.none, in: coding))
    }
}
