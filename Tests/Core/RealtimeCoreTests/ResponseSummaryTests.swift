import RealtimeCore
import TestSupport
import Testing

@Suite struct ResponseSummaryTests {
    @Test(arguments: [
        ("", "503 Busy."), ("no such app", "503 Busy: no such app."), ("Try later!\n", "503 Busy: Try later!"),
        (" two\r\n lines\t", "503 Busy: two lines."), ("\u{1}\u{2}", "503 Busy."),
        (
            "<!DOCTYPE html>\n<html><head><TITLE lang=en>Welcome\n to nginx!</TITLE></head><body>secret</body>",
            "503 Busy and a web page titled \"Welcome to nginx!\". Check the host, the port and the path."
        ),
        ("<html><body>no title", "503 Busy and a web page. Check the host, the port and the path."),
        ("<title></title>", "503 Busy and a web page. Check the host, the port and the path."),
        ("<title", "503 Busy and a web page. Check the host, the port and the path."),
        (String(repeating: "é", count: 5000), "503 Busy: \(String(repeating: "é", count: 200))…"),
    ])
    func `the body is summarized in one line`(body: String, summary: String) {
        let head = HTTPResponseHead(status: 503, reason: "Busy", headers: [:])
        expectEqual(HTTPResponse(head, body: Array(body.utf8)).summary, summary)
    }

    @Test func `a page is recognized by its type, and bytes that aren't text are left out`() {
        let page = HTTPResponseHead(status: 200, reason: "", headers: ["Content-Type": "text/html; charset=utf-8"])
        expectEqual(HTTPResponse(page, body: Array("Hello".utf8)).summary, "200 and a web page. Check the host, the port and the path.")
        expectEqual(HTTPResponse(HTTPResponseHead(status: 500), body: [0x61, 0xFF, 0x62]).summary, "500.")
    }

    @Test(arguments: [
        ("token", "503 Busy."), ("", "503 Busy."),
        ("<title>Sign in</title>", "503 Busy and a web page titled \"Sign in\". Check the host, the port and the path."),
    ])
    func `a summary of the status contains nothing of the body but the title of a page`(body: String, summary: String) {
        expectEqual(HTTPResponse(HTTPResponseHead(status: 503, reason: "Busy"), body: Array(body.utf8)).statusSummary, summary)
    }
}
