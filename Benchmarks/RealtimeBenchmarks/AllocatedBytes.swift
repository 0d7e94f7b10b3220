internal import CommandLineSupport
internal import CRealtimeSystem

/// What this process has from `malloc`, in bytes, over all threads; `nil` where the system does not count it. For measurements.
package var allocatedBytes: Int? {
    let bytes = realtime_allocated_bytes()
    return bytes == 0 ? nil : bytes
}
