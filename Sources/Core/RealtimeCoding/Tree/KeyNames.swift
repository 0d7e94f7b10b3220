/// Conversion between the names of members and Swift properties. Snake case follows the rules of Foundation's coders.
enum KeyNames {
    /// Converts `UserName` to `userName`.
    static func fromPascalCase(_ name: String) -> String { name.prefix(1).lowercased() + name.dropFirst() }

    /// Converts `userName` to `UserName`.
    static func toPascalCase(_ name: String) -> String { name.prefix(1).uppercased() + name.dropFirst() }

    /// Converts `one_two` to `oneTwo`. Leading and trailing underscores are kept.
    static func fromSnakeCase(_ name: String) -> String {
        guard name.contains("_"), let first = name.firstIndex(where: { $0 != "_" }), let last = name.lastIndex(where: { $0 != "_" }) else {
            return name
        }
        let words = name[first...last].split(separator: "_")
        guard words.count > 1 else { return name }
        return name[..<first] + words[0].lowercased() + words[1...].map(self.capitalized).joined() + name[name.index(after: last)...]
    }

    /// Capitalizes the first letter of each word and lowercases the others. Any character other than a letter ends a word, except for
    /// an apostrophe between letters.
    private static func capitalized(_ word: Substring) -> String {
        var result = ""
        var isInside = false
        for character in word {
            if !character.isLetter {
                result.append(character)
                isInside = isInside && character == "'"
            } else if isInside {
                result += character.lowercased()
            } else {
                let scalars = character.unicodeScalars
                result += scalars[scalars.startIndex].properties.titlecaseMapping + String(String.UnicodeScalarView(scalars.dropFirst()))
                isInside = true
            }
        }
        return result
    }

    /// Converts `oneTwo` to `one_two`, and `oneURLTwo` to `one_url_two`.
    static func toSnakeCase(_ name: String) -> String {
        let letters = Array(name)
        guard letters.count > 1 else { return name.lowercased() }
        var result = ""
        var start = 0
        var index = 1
        func cut(at end: Int) {
            result += String(letters[start..<end]).lowercased() + "_"
            start = end
        }
        while let upper = letters[index...].firstIndex(where: \.isUppercase) {
            cut(at: upper)
            guard let lower = letters[upper...].firstIndex(where: \.isLowercase) else { break }
            // The last of several capital letters begins the next word.
            if lower > upper + 1 { cut(at: lower - 1) }
            index = lower + 1
        }
        return result + String(letters[start...]).lowercased()
    }
}
