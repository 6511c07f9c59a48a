import CRdKafka

/// How this process's malloc treats what librdkafka frees.
public enum KafkaMemory {
    /// Lets malloc keep up to some MiB that nobody holds. librdkafka's threads take and free buffers of hundreds of
    /// kilobytes with each batch; giving their pages back to the kernel each time costs a page fault a request.
    ///
    /// For the whole process; call it once, before there are threads.
    public static func keepFreedPages() {
        daybook_keep_freed_pages()
    }
}
