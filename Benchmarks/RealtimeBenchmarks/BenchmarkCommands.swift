package import CommandLineSupport

/// The tool's commands that measure and test the package itself: `bench`, and those that `dev/autobahn` runs.
package enum BenchmarkCommands {
    package static let all: [any Command.Type] = [
        BenchCommand.self, BenchLoadCommand.self, AutobahnClientCommand.self, AutobahnServerCommand.self,
    ]
}
