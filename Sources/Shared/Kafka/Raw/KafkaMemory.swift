import CRdKafka

/// How this process's malloc treats what librdkafka frees.
public enum KafkaMemory {
    /// Lets malloc keep some memory that nobody holds. glibc gives large blocks back to the system at once, which has to
    /// clear every page of the next: a page fault a request where librdkafka's threads produce, and a third of what
    /// fetching costs where they read and unpack batches.
    ///
    /// For the whole process; call it once, before there are threads.
    ///
    /// - Parameters:
    ///   - block: how large a block may be that is kept, in MiB; at most 32.
    ///   - total: how much is kept, in MiB.
    public static func keepFreedPages(block: Int32, total: Int32) {
        daybook_keep_freed_pages(block, total)
    }
}
