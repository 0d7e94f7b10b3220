import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

@Suite struct ChannelMapTests {
    private func channel(_ slot: UInt32, _ serial: UInt32 = 1) -> ChannelID { ChannelID(slot: slot, serial: serial) }

    @Test func `a value is found by its channel and not by another one in the same slot`() {
        var map = ChannelMap<String>()
        map[self.channel(3)] = "a"
        expect(map[self.channel(3)] == "a" && map[self.channel(3, 2)] == nil && map[self.channel(2)] == nil)
        expect(map[.none] == nil && map[.several] == nil)
        map[self.channel(3, 2)] = "b"
        expect(map[self.channel(3)] == nil && map[self.channel(3, 2)] == "b")
    }

    @Test func `changing or removing a missing value has no effect`() {
        var map = ChannelMap<[Int]>()
        map[self.channel(1)]?.append(1)
        map[self.channel(1)] = nil
        expect(map.isEmpty)
        map[self.channel(1), default: []].append(1)
        map[self.channel(1), default: [9]].append(2)
        expect(map[self.channel(1)] == [1, 2] && map[self.channel(2), default: [7]] == [7])
    }

    @Test func `a map has the values of a dictionary after any changes`() {
        var generator = SplitMix64(seed: 1)
        var map = ChannelMap<Int>()
        var model: [ChannelID: Int] = [:]
        for number in 0..<5_000 {
            let id = self.channel(UInt32.random(in: 0..<20, using: &generator))
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: (map[id], model[id]) = (number, number)
            case 1: (map[id], model[id]) = (nil, nil)
            case 2:
                map[id]? += 1
                model[id]? += 1
            default:
                map[id, default: 0] += 2
                model[id, default: 0] += 2
            }
            expect(map[id] == model[id] && map.isEmpty == model.isEmpty)
        }
        for slot in 0..<20 as Range<UInt32> { expectEqual(map[self.channel(slot)], model[self.channel(slot)]) }
    }
}
