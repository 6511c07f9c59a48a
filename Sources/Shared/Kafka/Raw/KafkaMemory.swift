import CRdKafka

/// What becomes of memory that was freed.
public enum KafkaMemory {
    /// For a process that reads much: blocks of up to 32 MiB are kept and used again. glibc gives large ones back to the
    /// system at once, which has to clear every page of the next: for buffers of fetched and unpacked batches that was a
    /// third of what fetching costs. Call it before the first thread starts.
    public static func keepFreedBlocks() {
        daybook_keep_freed_blocks()
    }
}
