import Foundation
import TestSupport
import Testing

/// The privacy manifest, which Xcode includes in the privacy report of an app.
@Suite struct PrivacyManifestTests {
    private static let sources = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../Sources").standardized

    @Test func `the manifest declares no tracking, no collected data, and no API that needs a reason`() throws {
        let file = Self.sources.appendingPathComponent("Network/RealtimeURLSession/PrivacyInfo.xcprivacy")
        let value = try PropertyListSerialization.propertyList(from: Data(contentsOf: file), options: [], format: nil)
        let manifest = try #require(value as? [String: Any])
        let lists = ["NSPrivacyTrackingDomains", "NSPrivacyCollectedDataTypes", "NSPrivacyAccessedAPITypes"]
        expectEqual(manifest.keys.sorted(), (lists + ["NSPrivacyTracking"]).sorted())
        expectEqual(manifest["NSPrivacyTracking"] as? Bool, false)
        for key in lists { expectEqual((manifest[key] as? [Any])?.isEmpty, true, "\(key)") }
    }

    @Test func `apps link no code with an API that needs a reason`() throws {
        // Apple's lists: file timestamps, the time since the system has started, disk space, keyboards and user defaults.
        let names = [
            "creationDate", "modificationDate", "fileModificationDate", "contentModificationDateKey", "creationDateKey", "getattrlist",
            "getattrlistbulk", "fgetattrlist", "getattrlistat", "stat", "stat64", "fstat", "fstatat", "lstat",
            "systemUptime", "mach_absolute_time",
            "volumeAvailableCapacityKey", "volumeAvailableCapacityForImportantUsageKey", "volumeAvailableCapacityForOpportunisticUsageKey",
            "volumeTotalCapacityKey", "systemFreeSize", "systemSize", "statfs", "statvfs", "fstatfs", "fstatvfs",
            "activeInputModes", "UserDefaults",
        ]
        let pattern = try Regex("\\b(\(names.joined(separator: "|")))\\b")
        // These are for programs: the tool, and servers, whose sockets exist on macOS and Linux only.
        let programs = ["Tool/", "Network/RealtimeSockets/", "Network/CRealtimeSystem/"]
        let paths = (FileManager.default.enumerator(atPath: Self.sources.path)?.allObjects ?? []).compactMap { $0 as? String }
        let files = paths.filter { path in path.hasSuffix(".swift") && !programs.contains { path.hasPrefix($0) } }
        expect(files.count > 200)
        for file in files {
            let text = try String(contentsOf: Self.sources.appendingPathComponent(file), encoding: .utf8)
            for line in text.split(separator: "\n") where !line.drop(while: { $0 == " " }).hasPrefix("//") {
                expectNil(line.firstMatch(of: pattern), "\(file): \(line)")
            }
        }
    }
}
