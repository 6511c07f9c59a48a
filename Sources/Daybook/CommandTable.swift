/// Every command, in the order of the overview.
enum CommandTable {
    static let commands: [any (Command & Sendable).Type] = [
        UpCommand.self, DownCommand.self, StatusCommand.self, EnvCommand.self,
        SendCommand.self, DayShowCommand.self, TokenCommand.self,
        UserDeleteCommand.self, UserDisconnectCommand.self, UserPinCommand.self, UserExportCommand.self,
        UserDevicesCommand.self,
        WakeDueCommand.self, WakeExplainCommand.self, WakeRunCommand.self, WakeCampaignsCommand.self,
        WakePauseCommand.self, WakeResumeCommand.self,
        OffsetsCommand.self, RewindCommand.self, ReplayCommand.self, HashCommand.self,
        VerifyCommand.self, RecomputeCommand.self,
        DeadLettersListCommand.self, DeadLettersShowCommand.self, DeadLettersRedriveCommand.self,
        DeadLettersDropCommand.self, DeadLettersReleaseCommand.self,
        MigrateCommand.self, ConfigCommand.self, MetricsCommand.self, PlanCommand.self, BrokerCommand.self,
        PushStandInCommand.self, CompletionCommand.self,
    ]
}
