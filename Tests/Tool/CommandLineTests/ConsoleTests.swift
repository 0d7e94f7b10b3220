import Foundation
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite struct LineTests {
    private func json(_ line: Line) -> String { String(decoding: line.json, as: UTF8.self) }
    private func words(_ line: Line, coloured: Bool = false) -> String { String(decoding: line.words(coloured: coloured), as: UTF8.self) }

    @Test func `programs get one object a line`() {
        #expect(self.json(.state("connected")) == #"{"type":"state","state":"connected"}"# + "\n")
        #expect(self.json(.subscribed("a")) == #"{"type":"subscribed","channel":"a"}"# + "\n")
        #expect(self.json(.error("no", code: 4001)) == #"{"type":"error","code":4001,"message":"no"}"# + "\n")
        #expect(
            self.json(Line([], ["a": true, "b": 1, "c": .number(0.5), "d": .number(.nan), "e": .strings(["x", "y"]), "f": nil]))
                == #"{"a":true,"b":1,"c":0.5,"d":null,"e":["x","y"]}"# + "\n")
        let event = Line.event(channel: "a", event: "e", data: #"{"x":"y"}"#)
        #expect(self.json(event) == #"{"type":"event","channel":"a","event":"e","data":"{\"x\":\"y\"}"}"# + "\n")
    }

    @Test func `people get words and colours`() {
        let event = Line.event(channel: "a", event: "e", data: "1", userID: "me")
        #expect(self.words(event) == "a e from me 1\n")
        #expect(self.words(.subscribed("a"), coloured: true) == "\u{1B}[32msubscribed\u{1B}[0m to \u{1B}[36ma\u{1B}[0m\n")
    }

    @Test(arguments: ["\u{1B}]0;title\u{07}", "a\nb\r\tc", "\u{9B}31m", "\u{7F}", "\u{202E}evil", "\u{2028}", "é😀"])
    func `nothing that a terminal obeys reaches it`(_ data: String) {
        let line = Line.event(channel: data, event: data, data: data)
        let shown = self.words(line).dropLast()
        #expect(
            shown.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0 != "\u{202E}" && $0 != "\u{2028}"
            })
        let json = String(decoding: TerminalText.escaped(json: line.json), as: UTF8.self).dropLast()
        #expect(
            json.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0 != "\u{202E}" && $0 != "\u{2028}" }
        )
    }

    @Test(arguments: ["", "\"\\/", "\u{0}\u{1F}\n\r\t\u{8}\u{C}", "\u{7F}\u{9B}\u{202E}", "é😀\u{10FFFF}"])
    func `programs read the data as it was delivered`(_ data: String) throws {
        let line = Line.event(channel: "a", event: "e", data: data)
        for bytes in [line.json, TerminalText.escaped(json: line.json)] {
            let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: String])
            #expect(object["data"] == data)
            #expect(bytes.filter { $0 == 0x0A }.count == 1)
        }
    }
}

@Suite struct FormatTests {
    @Test(
        arguments: [
            (false, true, ["TERM": "xterm"], Console.Format.words(coloured: true)),
            (false, true, ["TERM": "xterm", "NO_COLOR": "1"], .words(coloured: false)),
            (false, true, ["TERM": "xterm", "NO_COLOR": ""], .words(coloured: true)),
            (false, true, ["TERM": "dumb"], .words(coloured: false)),
            (false, true, [:], .words(coloured: false)),
            (true, true, ["TERM": "xterm"], .json(terminal: true)),
            (false, false, ["TERM": "xterm"], .json(terminal: false)),
            (true, false, [:], .json(terminal: false)),
        ] as [(Bool, Bool, [String: String], Console.Format)])
    func `the reader decides the format`(_ json: Bool, _ isTerminal: Bool, _ environment: [String: String], _ format: Console.Format) {
        #expect(Console.format(json: json, isTerminal: isTerminal) { environment[$0] } == format)
    }
}
