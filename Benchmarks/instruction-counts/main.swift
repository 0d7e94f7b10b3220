import CAllocations
import RealtimeBenchmarks
import RealtimeSystem

exit(InstructionCounts.main(Array(CommandLine.arguments.dropFirst())) { Int(allocation_count()) })
