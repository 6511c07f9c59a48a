import Kafka
import Testing

struct KafkaErrorTests {
    private func error(_ code: Int32, fatal: Bool = false) -> KafkaError {
        KafkaError(code: code, name: "NAME", reason: "what happened", isFatal: fatal)
    }

    @Test(arguments: [
        KafkaError.Code.queueFull, KafkaError.Code.messageTimedOut, KafkaError.Code.allBrokersDown,
        KafkaError.Code.notEnoughReplicas, 6,
    ])
    func `trouble that passes is retriable`(code: Int32) {
        #expect(error(code).isRetriable)
    }

    @Test(arguments: [
        KafkaError.Code.messageTooLarge, KafkaError.Code.topicAuthorization, KafkaError.Code.autoOffsetReset,
        KafkaError.Code.unknownTopicOrPartition, KafkaError.Code.invalidArgument,
    ])
    func `trouble that stays is not retriable`(code: Int32) {
        #expect(!error(code).isRetriable)
    }

    @Test func `a fatal error is never retriable and asks for a new client`() {
        let fatal = error(KafkaError.Code.transport, fatal: true)
        #expect(!fatal.isRetriable)
        #expect(fatal.message.contains("new client"))
    }

    @Test func `every message holds reason, name and a next step`() {
        for code in Int32(-200)...100 {
            let error = error(code)
            #expect(error.message == "what happened (NAME). \(error.nextStep)")
            #expect(error.nextStep.hasSuffix("."))
        }
    }
}
