import Foundation
import Testing

/// The output of `print`, `dump`, interpolation, `String(reflecting:)` and mirrors for a value.
package enum PrintedText {
    /// The name of a value's type without its module and generic arguments.
    package static func typeName(of value: Any) -> String {
        var name = ""
        var depth = 0
        for character in String(reflecting: type(of: value)) {
            if character == "<" { depth += 1 }
            if depth == 0 { name.append(character) }
            if character == ">" { depth -= 1 }
        }
        return name.split(separator: ".").dropFirst().joined(separator: ".")
    }

    /// All texts that print a value, its children and their children.
    package static func texts(of value: Any) -> [String] {
        var texts = ["\(value)", String(describing: value), String(reflecting: value), "\([value])", "\(["key": value])"]
        var dumped = ""
        dump(value, to: &dumped)
        texts.append(dumped)
        if let error = value as? any Error { texts += ["\(error)", error.localizedDescription] }
        var visited: Set<ObjectIdentifier> = []
        Self.walk(value, depth: 0, &visited, &texts)
        // Numbers may be the bytes of a text.
        return texts + texts.map(Self.decodedNumbers)
    }

    /// The text of a value if it shows how the value is stored: with the names of modules or types of the system, or memory.
    package static func internals(of value: Any) -> String? {
        let text = "\(value)"
        let module = /\b(?:Swift|_Concurrency|(?:Realtime|Pusher|SignalR|Primus|NWWebSocket)\w*)\.[A-Z]/
        let parts = ["Optional(", "(Function)", "0x0", "Lock<", "<closure>"]
        return text.contains(module) || parts.contains { text.contains($0) } ? text : nil
    }

    private static func walk(_ value: Any, depth: Int, _ visited: inout Set<ObjectIdentifier>, _ texts: inout [String]) {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .class, !visited.insert(ObjectIdentifier(value as AnyObject)).inserted || depth > 20 { return }
        var current: Mirror? = mirror
        while let mirror = current {
            for child in mirror.children {
                texts += [child.label ?? "", "\(child.value)", String(reflecting: child.value)]
                Self.walk(child.value, depth: depth + 1, &visited, &texts)
            }
            current = mirror.superclassMirror
        }
    }

    /// The text that the decimal numbers in a text encode.
    private static func decodedNumbers(in text: String) -> String {
        String(decoding: text.utf8.split { !(0x30...0x39).contains($0) }.compactMap { UInt8(String($0) ?? "") }, as: UTF8.self)
    }
}

/// The public declarations in the sources, which are formatted by `swift format`: the indentation shows the nesting.
package enum PublicDeclarations {
    /// Returns the public structures, enumerations, classes and actors, with the names of the types that contain them.
    package static func types(in folder: String) throws -> Set<String> {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
        let files = try #require(FileManager.default.enumerator(atPath: "\(root)/\(folder)"))
        var names: Set<String> = []
        for case let file as String in files where file.hasSuffix(".swift") {
            names.formUnion(self.types(declaredIn: try String(contentsOfFile: "\(root)/\(folder)/\(file)", encoding: .utf8)))
        }
        return names
    }

    private static func types(declaredIn source: String) -> [String] {
        let declaration = /^(?<indent> *)(?<modifiers>(?:[@\w()]+ )*)(?<kind>struct|enum|class|actor|extension|protocol) (?<name>[\w.]+)/
        var names: [String] = []
        var enclosing: [(indent: Int, name: String)] = []
        for line in source.split(separator: "\n") {
            guard let match = line.firstMatch(of: declaration) else { continue }
            enclosing.removeAll { $0.indent >= match.indent.count }
            enclosing.append((match.indent.count, String(match.name)))
            let isType = match.kind != "extension" && match.kind != "protocol"
            let modifiers = match.modifiers.split(separator: " ")
            if isType, modifiers.contains("public"), !modifiers.contains("import") {
                names.append(enclosing.map(\.name).joined(separator: "."))
            }
        }
        return names
    }
}
