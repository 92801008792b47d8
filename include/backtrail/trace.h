/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libbacktrail: reading and writing traces
 *
 * A trace is a file of streams, one per vCPU.  A stream is a sequence of
 * records (taken branches) with events in between; both are defined in
 * transport.h.  docs/trace-format.md describes the file.
 *
 * Conventions:
 *  - Functions return 0 or a negative enum btrail_error; btrail_strerror()
 *    describes either sign.  With BTRAIL_ERR_IO, errno has the cause.
 *  - Handles are opaque.  One handle is used by one thread at a time;
 *    different handles, also cursors of one trace, are independent.
 *  - Times are in nanoseconds of the host's CLOCK_MONOTONIC unless said
 *    otherwise, sizes in bytes, positions in records.
 *  - What a function returns through a pointer belongs to the handle; the
 *    function's comment says how long it is valid.
 *  - A file is never trusted: whatever it contains, memory use is bounded and
 *    the result is data or an error.
 */

#ifndef BACKTRAIL_TRACE_H
#define BACKTRAIL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BTRAIL_API __attribute__((visibility("default")))

/**
 * enum btrail_error - what can go wrong
 *
 * @BTRAIL_ERR_ARGUMENT: an argument is NULL or out of its range
 * @BTRAIL_ERR_MEMORY:   out of memory
 * @BTRAIL_ERR_IO:       a system call failed, see errno
 * @BTRAIL_ERR_FORMAT:   not a trace
 * @BTRAIL_ERR_VERSION:  a trace of a version, or with a codec, that this
 *                       library does not know
 * @BTRAIL_ERR_CORRUPT:  the data contradicts its checksum or itself
 * @BTRAIL_ERR_END:      there is no more
 * @BTRAIL_ERR_STREAM:   the trace has no such stream
 * @BTRAIL_ERR_SLAB:     records and events handed to a writer contradict
 *                       each other or what came before
 * @BTRAIL_ERR_OTHER:    the files are not all of the same trace
 * @BTRAIL_ERR_OVERLAP:  files of a trace have the same records
 * @BTRAIL_ERR_RANGE:    a record does not fit into the 32-bit format
 */
enum btrail_error {
    BTRAIL_ERR_ARGUMENT = 1,
    BTRAIL_ERR_MEMORY = 2,
    BTRAIL_ERR_IO = 3,
    BTRAIL_ERR_FORMAT = 4,
    BTRAIL_ERR_VERSION = 5,
    BTRAIL_ERR_CORRUPT = 6,
    BTRAIL_ERR_END = 7,
    BTRAIL_ERR_STREAM = 8,
    BTRAIL_ERR_SLAB = 9,
    BTRAIL_ERR_OTHER = 10,
    BTRAIL_ERR_OVERLAP = 11,
    BTRAIL_ERR_RANGE = 12,
};

/**
 * btrail_strerror - words for an error
 * @error: enum btrail_error, of either sign, or 0
 *
 * Returns a constant string, never NULL.
 */
BTRAIL_API const char *btrail_strerror(int error);

/**
 * btrail_version - version of the library, such as "0.1.0"
 */
BTRAIL_API const char *btrail_version(void);

/*
 * Reasons of events that no producer sends: a GAP where records are in another
 * file of the trace, and the END that a repair adds where a trace was cut off.
 */
#define BTRAIL_GAP_ELSEWHERE        256
#define BTRAIL_END_CUT              256

/*
 * Pseudo-addresses, which replace addresses that the session was not allowed
 * to record.  None is a canonical address, and each is in the half of the
 * address space that it stands for.
 *
 * In a trace of user mode only, the `to` of a branch into the kernel says how
 * the kernel was entered, and the `from` of a branch out of it is
 * BTRAIL_PSEUDO_FROM_KERNEL.  The same holds for a trace of the kernel only.
 */
#define BTRAIL_PSEUDO_TO_KERNEL     UINT64_C(0x8000000000000000) /* unknown */
#define BTRAIL_PSEUDO_SYSCALL       UINT64_C(0x8000000000000001)
#define BTRAIL_PSEUDO_PAGE_FAULT    UINT64_C(0x8000000000000002)
#define BTRAIL_PSEUDO_EXCEPTION     UINT64_C(0x8000000000000003) /* others */
#define BTRAIL_PSEUDO_INTERRUPT     UINT64_C(0x8000000000000004)
#define BTRAIL_PSEUDO_FROM_KERNEL   UINT64_C(0x800000000000000f)
#define BTRAIL_PSEUDO_TO_USER       UINT64_C(0x4000000000000000)
#define BTRAIL_PSEUDO_FROM_USER     UINT64_C(0x400000000000000f)

/**
 * btrail_pseudo_name - words for a pseudo-address, such as "[syscall]"
 *
 * Returns a constant string; NULL if this is not a pseudo-address.
 */
BTRAIL_API const char *btrail_pseudo_name(uint64_t address);

/*
 * Reading
 */

struct btrail_trace;
struct btrail_cursor;

/**
 * struct btrail_time - the time that a TIME event reports
 * @host:   CLOCK_MONOTONIC of the host, 0 if no time is known
 * @tsc:    TSC as the guest reads it
 * @icount: instructions, or BTRAIL_NO_ICOUNT
 */
struct btrail_time {
    uint64_t host;
    uint64_t tsc;
    uint64_t icount;
};

/**
 * struct btrail_trace_status - the state of a trace when it was opened
 *
 * For several files the numbers are sums, and what applies to the file applies
 * to all of them.
 *
 * @file_size:     bytes
 * @chunks:        whole chunks, including those that are not used
 * @bad_chunks:    chunks left out because opening found them damaged; damage
 *                 inside of others is found when they are read
 * @missing_chunks: chunks that the sequence numbers show to be missing
 * @skipped_bytes: bytes in the middle of the file that belong to no chunk
 * @cut_bytes:     bytes at the end that belong to no whole chunk
 * @files:         number of files
 * @first_part:    number of the first file, from its header; 0 if no file of
 *                 the trace came before it, or only those that the recording
 *                 has deleted
 * @missing_parts: files that are missing between the first and the last one
 * @complete:      the file was closed properly (it has its END chunk)
 * @indexed:       the index was read; otherwise the file was scanned
 * @continued:     the trace continues in a file that was not opened
 */
struct btrail_trace_status {
    uint64_t file_size;
    uint64_t chunks;
    uint64_t bad_chunks;
    uint64_t missing_chunks;
    uint64_t skipped_bytes;
    uint64_t cut_bytes;
    unsigned files;
    unsigned first_part;
    uint64_t missing_parts;
    bool complete;
    bool indexed;
    bool continued;
};

/**
 * struct btrail_stream_info - one stream, according to the index
 * @vcpu:        index of the vCPU
 * @chunks:      chunks
 * @records:     records in them
 * @bytes:       of its chunks in the files
 * @first_index: index at which the stream begins
 * @end_index:   index that a next record would have
 * @first_time:  of the first TIME event, 0 if there is none
 * @last_time:   of the last TIME event, 0 if there is none
 */
struct btrail_stream_info {
    unsigned vcpu;
    uint64_t chunks;
    uint64_t records;
    uint64_t bytes;
    uint64_t first_index;
    uint64_t end_index;
    uint64_t first_time;
    uint64_t last_time;
};

/**
 * btrail_trace_open - open a trace
 * @trace: gets the handle; free with btrail_trace_close()
 * @path:  file name
 *
 * A file that was cut off opens up to its last whole chunk.  Damaged chunks
 * are left out and appear as GAP events with reason BTRAIL_GAP_CORRUPT.
 *
 * Errors: ARGUMENT, IO, MEMORY, FORMAT, VERSION.
 */
BTRAIL_API int btrail_trace_open(struct btrail_trace **trace,
                                 const char *path);

/**
 * btrail_trace_open_fd - open a trace by file descriptor
 * @fd: a seekable file; the trace owns it from here on, also on failure
 *
 * Otherwise as btrail_trace_open().
 */
BTRAIL_API int btrail_trace_open_fd(struct btrail_trace **trace, int fd);

/**
 * btrail_trace_open_files - open a trace that consists of several files
 * @paths: their names, in any order
 * @n:     how many, at least 1
 *
 * The files must belong to one trace: parts of a recording that was split, or
 * what several agents have recorded of one session.  Holes between them appear
 * as GAP events.  All files stay open until the trace is closed.
 *
 * Errors: ARGUMENT, IO, MEMORY, FORMAT, VERSION, OTHER, OVERLAP.
 */
BTRAIL_API int btrail_trace_open_files(struct btrail_trace **trace,
                                       const char *const *paths, unsigned n);

/**
 * btrail_trace_open_parts - open a file with all parts that follow it
 * @path: name of part 0, such as x.btrail; those of x.1.btrail, x.2.btrail and
 *        so on that exist and are of the same trace are opened, too
 *
 * @path itself need not exist if another part does: a ring deletes its oldest
 * parts.
 *
 * Errors: as btrail_trace_open_files().
 */
BTRAIL_API int btrail_trace_open_parts(struct btrail_trace **trace,
                                       const char *path);

/**
 * btrail_trace_close - close a trace, whose cursors must have been closed
 * @trace: a trace or NULL
 */
BTRAIL_API void btrail_trace_close(struct btrail_trace *trace);

/**
 * btrail_trace_status - get the state of the trace when it was opened
 *
 * Errors: ARGUMENT.
 */
BTRAIL_API int btrail_trace_status(const struct btrail_trace *trace,
                                   struct btrail_trace_status *status);

/**
 * btrail_trace_streams - number of streams
 */
BTRAIL_API unsigned btrail_trace_streams(const struct btrail_trace *trace);

/**
 * btrail_trace_stream - describe a stream
 * @n: from 0 to btrail_trace_streams() - 1, in order of vCPU
 *
 * Errors: ARGUMENT, STREAM.
 */
BTRAIL_API int btrail_trace_stream(const struct btrail_trace *trace,
                                   unsigned n,
                                   struct btrail_stream_info *info);

/**
 * btrail_trace_meta - a piece of the trace's description
 * @n:      from 0
 * @json:   gets a JSON object as NUL-terminated text, valid UTF-8 but
 *          otherwise unchecked; lives as long as the trace
 * @length: gets its length, may be NULL
 *
 * A trace has one piece from its start and one from its end; members of a
 * later piece replace those of an earlier one.
 *
 * Errors: ARGUMENT, END (there is no n-th piece).
 */
BTRAIL_API int btrail_trace_meta(const struct btrail_trace *trace, unsigned n,
                                 const char **json, size_t *length);

/* The most bytes of the name of a task */
#define BTRAIL_TASK_NAME    16

/**
 * struct btrail_task - a task of the guest's kernel
 * @known:  false if nothing is known of it; all else is 0 then
 * @kernel: it is a thread of the kernel
 * @tid:    its number; 0 for the idle task of each vCPU
 * @pid:    that of its process
 * @name:   NUL-terminated, of any other bytes
 * @nested: of a nested guest's task, the number of the kernel that runs it; 0 of
 *          any other, and from btrail_event_task(), which does not know it
 */
struct btrail_task {
    bool known;
    bool kernel;
    uint32_t tid;
    uint32_t pid;
    char name[BTRAIL_TASK_NAME + 1];
    uint16_t nested;
};

/**
 * btrail_event_task - the task that a TASK event names
 * @task: gets it
 *
 * Errors: ARGUMENT (it is another event).
 */
BTRAIL_API int btrail_event_task(const struct btrail_event *event,
                                 struct btrail_task *task);

/**
 * struct btrail_left - why the task before that of a TASK event does not run
 * any more: it is @runnable, @dead, or else blocked
 * @known:  false if that is not known; all else is false then
 * @interruptible: it is blocked, and signals wake it
 * @uninterruptible: it is blocked, and they do not.  Neither of the two: it was
 *          stopped, or somebody woke it already before it had left
 */
struct btrail_left {
    bool known;
    bool runnable;
    bool dead;
    bool interruptible;
    bool uninterruptible;
};

/**
 * btrail_event_left - what a TASK event says of the task before
 * @left: gets it
 *
 * Errors: ARGUMENT (it is another event).
 */
BTRAIL_API int btrail_event_left(const struct btrail_event *event,
                                 struct btrail_left *left);

/**
 * struct btrail_wake - a task that another one, or an interrupt, wakes
 * @known:  false if nobody knows which task it is: @kernel, @tid and @pid are 0
 *          then
 * @kernel: it is a thread of the kernel
 * @is_new: it has not run yet
 * @tid, @pid: its number, and that of its process
 */
struct btrail_wake {
    bool known;
    bool kernel;
    bool is_new;
    uint32_t tid;
    uint32_t pid;
};

/**
 * btrail_event_wake - the task that is woken where a WAKE event is
 * @wake: gets it
 *
 * Errors: ARGUMENT (it is another event).
 */
BTRAIL_API int btrail_event_wake(const struct btrail_event *event,
                                 struct btrail_wake *wake);

/**
 * struct btrail_kernel - which kernel of the guest runs
 * @known:  has the trace said it?  If not, it may be any; all else is 0 then
 * @nested: a nested guest runs
 * @number: of a kernel that the sideband of the trace describes, from 1 on; 0
 *          if it is none of these
 * @nested_root: guest-physical address of the nested guest's nested page
 *          tables; 0 if it has none, or does not run
 */
struct btrail_kernel {
    bool known;
    bool nested;
    uint16_t number;
    uint64_t nested_root;
};

/**
 * btrail_event_kernel - the kernel that a KERNEL event names
 * @kernel: gets it
 *
 * Errors: ARGUMENT (it is another event).
 */
BTRAIL_API int btrail_event_kernel(const struct btrail_event *event,
                                   struct btrail_kernel *kernel);

/**
 * btrail_record_icount - the instruction count of a record
 * @record: of a batch
 * @time:   of the same batch
 *
 * How many instructions the guest has executed, as QEMU's -icount counts them,
 * when the next one is that at @record->to.  The branch itself is included.
 *
 * Returns BTRAIL_NO_ICOUNT if the trace does not have the count.
 */
BTRAIL_API uint64_t btrail_record_icount(const struct btrail_record *record,
                                         const struct btrail_time *time);

/**
 * struct btrail_batch - what btrail_cursor_next() returns
 * @event:     the event, or NULL if these are records
 * @synthetic: the event is not in the file, but reports damage that the
 *             reader found: a GAP with reason BTRAIL_GAP_CORRUPT
 * @records:   the records, or NULL if this is an event or records are not
 *             decoded
 * @count:     their number, at least 1, or 0 if this is an event
 * @index:     of the first record; for an event, of the next record as it
 *             is known before the event
 * @cr3:       CR3 in force for these records, or after the event: the address
 *             space, see btrail_cr3_root(), and the mode of the code, see
 *             btrail_cr3_code_bits()
 * @time:      the TIME event in force for these records, or after the event
 * @task:      the task that made these records, or that runs after the event.
 *             At events before the first record of a chunk it can be unknown,
 *             although it is known for the records before and after them.
 * @kernel:    the kernel that these records are of, or that runs after the
 *             event; at such events it can be unknown, too
 * @ended:     no event says which kernel it is, but the one that is known had
 *             ended, and no other one was found yet, by the sideband: @kernel is
 *             none that is known, and so is @task
 * @leaves:    the last of these records goes from @kernel to another kernel
 *             that the next event names: VMRUN, #VMEXIT.  The name that its @to
 *             has in @kernel means nothing.
 *
 * All records of a batch share CR3, TIME event, task and kernel, and their
 * indices have no hole.  @event and @records are valid until the next call with
 * the same cursor.
 */
struct btrail_batch {
    const struct btrail_event *event;
    bool synthetic;
    const struct btrail_record *records;
    size_t count;
    uint64_t index;
    uint64_t cr3;
    struct btrail_time time;
    struct btrail_task task;
    struct btrail_kernel kernel;
    bool ended;
    bool leaves;
};

/*
 * btrail_cursor_open(): do not decode records, which is fast.  Return only
 * events, or also batches of records with @count but without @records.
 */
#define BTRAIL_CURSOR_EVENTS_ONLY   1u
#define BTRAIL_CURSOR_COUNTS_ONLY   2u

/**
 * btrail_cursor_open - read a stream
 * @cursor: gets the handle, at the start of the stream; free with
 *          btrail_cursor_close()
 * @trace:  must outlive the cursor
 * @vcpu:   which stream
 * @flags:  BTRAIL_CURSOR_*
 *
 * Errors: ARGUMENT, STREAM, MEMORY.
 */
BTRAIL_API int btrail_cursor_open(struct btrail_cursor **cursor,
                                  const struct btrail_trace *trace,
                                  unsigned vcpu, unsigned flags);

/**
 * btrail_cursor_close
 * @cursor: a cursor or NULL
 */
BTRAIL_API void btrail_cursor_close(struct btrail_cursor *cursor);

/**
 * btrail_cursor_next - the next event or records
 *
 * GAP events cover every hole in the indices exactly; where the file lacks
 * one, a synthetic one is returned.  Damaged chunks are skipped.  If the header
 * of a file says why it begins in the middle of a stream, a GAP event with that
 * reason is returned for the records that no other file has.
 *
 * Errors: ARGUMENT, END, IO, MEMORY.
 */
BTRAIL_API int btrail_cursor_next(struct btrail_cursor *cursor,
                                  struct btrail_batch *batch);

/**
 * btrail_cursor_seek - go to a record
 * @index: of a record
 *
 * The next batch is the first one, event or records, whose index is not below
 * @index; it has no records before that.  CR3, time and task are those in force
 * there.
 *
 * Errors: ARGUMENT.
 */
BTRAIL_API int btrail_cursor_seek(struct btrail_cursor *cursor,
                                  uint64_t index);

/**
 * btrail_cursor_seek_time - go to a time
 * @host: CLOCK_MONOTONIC of the host; 0 is the start of the stream
 *
 * The next batch is the first one, event or records, at which a TIME event of
 * @host or later is in force: usually that TIME event itself.  Records before
 * it may have been made up to a tick after @host, see TIME events.
 * If the stream ends before @host, the cursor is at its end.
 *
 * Errors: ARGUMENT.
 */
BTRAIL_API int btrail_cursor_seek_time(struct btrail_cursor *cursor,
                                       uint64_t host);

/* btrail_cursor_seek_cr3(): seek the last place before @index */
#define BTRAIL_SEEK_PREVIOUS        1u

/**
 * btrail_cursor_seek_cr3 - go to where an address space comes into force
 * @cr3:   only its btrail_cr3_root() counts, here and in the trace
 * @index: seek the first such place at this index or after it; with
 *         BTRAIL_SEEK_PREVIOUS, the last one before it
 * @flags: 0 or BTRAIL_SEEK_PREVIOUS
 *
 * These places are the CR3 events that change to the address space from
 * another one.  If the address space is in force there, so are the start of the
 * stream and what follows a hole that the file does not explain.  The next
 * batch is that event, or the first batch at that place.
 *
 * If there is no such place, the cursor is at the end of the stream, or at its
 * start with BTRAIL_SEEK_PREVIOUS.  Chunks without such an event are skipped
 * without being read.
 *
 * Errors: ARGUMENT, END (there is none), IO, MEMORY.
 */
BTRAIL_API int btrail_cursor_seek_cr3(struct btrail_cursor *cursor,
                                      uint64_t cr3, uint64_t index,
                                      unsigned flags);

/**
 * btrail_cursor_bad_chunks - damaged chunks that this cursor has skipped
 */
BTRAIL_API uint64_t
btrail_cursor_bad_chunks(const struct btrail_cursor *cursor);

/*
 * Reading span by span
 */

struct btrail_spans;

/**
 * struct btrail_span - the records between two CR3 events
 * @vcpu:        whose stream
 * @cr3:         in force, as it was loaded
 * @first_index: index that a first record would have
 * @end_index:   index after the last record
 * @records:     how many records there are
 * @lost:        how many are missing, according to GAP events; the sum of
 *               @records and @lost is @end_index - @first_index
 * @first:       the TIME event in force at the first record
 * @last:        the TIME event in force at the last record
 *
 * The span began and ended less than a tick after these TIME events.  If all
 * of its records are missing, both are the TIME event in force before them.
 */
struct btrail_span {
    unsigned vcpu;
    uint64_t cr3;
    uint64_t first_index;
    uint64_t end_index;
    uint64_t records;
    uint64_t lost;
    struct btrail_time first;
    struct btrail_time last;
};

/* btrail_spans_open(): only spans of the address space of @cr3 */
#define BTRAIL_SPANS_OF_SPACE       1u

/**
 * btrail_spans_open - read a stream span by span
 * @spans: gets the handle, at the start of the stream; free with
 *         btrail_spans_close()
 * @trace: must outlive the handle
 * @vcpu:  which stream
 * @cr3:   with BTRAIL_SPANS_OF_SPACE, of which only spans are returned: of its
 *         btrail_cr3_root()
 * @flags: 0 or BTRAIL_SPANS_OF_SPACE
 *
 * Does not decode records.  With BTRAIL_SPANS_OF_SPACE it does not even read
 * chunks in which the address space does not run.
 *
 * Errors: ARGUMENT, STREAM, MEMORY.
 */
BTRAIL_API int btrail_spans_open(struct btrail_spans **spans,
                                 const struct btrail_trace *trace,
                                 unsigned vcpu, uint64_t cr3, unsigned flags);

/**
 * btrail_spans_close
 * @spans: a handle or NULL
 */
BTRAIL_API void btrail_spans_close(struct btrail_spans *spans);

/**
 * btrail_spans_next - the next span
 *
 * Spans come in order.  Each CR3 event begins one, also if it loads the same
 * CR3 again.  If a piece of the file is missing and another CR3 is in force
 * after it, a span begins there.  Spans in which nothing was recorded or lost
 * are left out; all others together are the whole stream.
 *
 * Errors: ARGUMENT, END, IO, MEMORY.
 */
BTRAIL_API int btrail_spans_next(struct btrail_spans *spans,
                                 struct btrail_span *span);

/**
 * btrail_spans_bad_chunks - damaged chunks that were skipped
 */
BTRAIL_API uint64_t btrail_spans_bad_chunks(const struct btrail_spans *spans);

/*
 * Reading streams together, in the order of time
 */

struct btrail_merged;

/**
 * btrail_merged_open - read several streams as one
 * @merged: gets the handle, at the start of all streams; free with
 *          btrail_merged_close()
 * @trace:  must outlive the handle
 * @vcpus, @n: which streams; NULL and 0 for all
 * @flags:  BTRAIL_CURSOR_*
 * @grain:  precision of the order, in nanoseconds
 *
 * In a trace, only TIME, PAUSE, RESUME and END events have a clock; there is a
 * TIME event every tick, usually each 1 ms.  The time of a record is estimated
 * between the two clocks around it, in proportion to the index.  If these are
 * more than two ticks apart, the vCPU has waited before the second one, and its
 * records share two ticks after the first one.  The estimate is as good as the
 * vCPU is steady, and as a rule wrong by less than a tick.
 *
 * Streams are merged by these times: no record comes before one of another vCPU
 * whose estimated time is earlier by @grain or more; with equal times the lower
 * vCPU comes first.  Each stream stays in its order.  Where vCPUs ran at the
 * same time, a batch is about as long as one of them runs in @grain, so a small
 * @grain costs time: 10000 has no measurable cost, and is finer than the
 * estimates.
 *
 * A thread is on one vCPU at a time.  Where estimates say that it begins on one
 * (a TASK event) before it has left another one, the first vCPU waits, as long
 * as its clocks allow that it was later, and its times are those of the other
 * one until then.
 *
 * Errors: ARGUMENT (also if a vCPU is named twice), STREAM, MEMORY.
 */
BTRAIL_API int btrail_merged_open(struct btrail_merged **merged,
                                  const struct btrail_trace *trace,
                                  const unsigned *vcpus, size_t n,
                                  unsigned flags, uint64_t grain);

/**
 * btrail_merged_close
 * @merged: a handle or NULL
 */
BTRAIL_API void btrail_merged_close(struct btrail_merged *merged);

/**
 * btrail_merged_next - the next event or records of any stream
 * @vcpu:  gets whose
 * @time:  gets the estimated time of the first record, or of the event, as
 *         host clock; 0 if it is unknown; may be NULL
 * @batch: as from btrail_cursor_next(), and valid until the next call with
 *         this handle
 *
 * Errors: ARGUMENT, END, IO, MEMORY.
 */
BTRAIL_API int btrail_merged_next(struct btrail_merged *merged,
                                  unsigned *vcpu, uint64_t *time,
                                  struct btrail_batch *batch);

/**
 * btrail_merged_seek_time - go to a time in all streams
 * @host: CLOCK_MONOTONIC of the host; 0 is the start of the streams
 *
 * Each stream continues as after btrail_cursor_seek_time().
 *
 * Errors: ARGUMENT.
 */
BTRAIL_API int btrail_merged_seek_time(struct btrail_merged *merged,
                                       uint64_t host);

/**
 * btrail_merged_bad_chunks - damaged chunks that were skipped
 */
BTRAIL_API uint64_t
btrail_merged_bad_chunks(const struct btrail_merged *merged);

/*
 * Decoding with several threads
 */

#define BTRAIL_MAX_THREADS          256

/*
 * btrail_parallel_decode(): in order, one call at a time; and decode records to
 * find damage, but return batches without @records.
 */
#define BTRAIL_PARALLEL_ORDERED     0x100u
#define BTRAIL_PARALLEL_CHECK_ONLY  0x200u

/**
 * struct btrail_piece - a piece of a stream that one thread decodes
 * @vcpu:   whose stream
 * @number: from 0 to the stream's number of chunks - 1: a piece is a chunk,
 *          with what is missing right before it
 * @worker: from 0 to the number of threads - 1; calls with the same one do not
 *          overlap
 * @bad:    at the end of the piece: the chunk is damaged
 */
struct btrail_piece {
    unsigned vcpu;
    uint64_t number;
    unsigned worker;
    bool bad;
};

/**
 * btrail_parallel_fn - receives what was decoded
 * @opaque: as passed to btrail_parallel_decode()
 * @piece:  the piece that it is from
 * @batch:  as from btrail_cursor_next(), valid until the function returns;
 *          NULL at the end of the piece
 *
 * Returns 0 to continue; any other value ends the decoding.
 */
typedef int btrail_parallel_fn(void *opaque, const struct btrail_piece *piece,
                               const struct btrail_batch *batch);

/**
 * btrail_parallel_threads - a good number of threads here
 *
 * Returns the number of CPUs that this process may use, at least 1 and at
 * most BTRAIL_MAX_THREADS.
 */
BTRAIL_API unsigned btrail_parallel_threads(void);

/**
 * btrail_parallel_decode - decode streams with several threads
 * @trace:   the trace
 * @vcpus, @n: which streams, one after the other; NULL and 0 for all
 * @flags:   BTRAIL_CURSOR_*, BTRAIL_PARALLEL_*
 * @threads: how many, including that of the caller; at least 1
 * @fn:      receives the batches
 * @opaque:  for @fn
 *
 * With BTRAIL_PARALLEL_ORDERED, all batches of a stream come in order, stream
 * by stream, in the caller's thread, and the other threads work ahead.  This
 * needs the memory of one cursor more than there are threads.
 *
 * Without it, all threads call @fn at the same time, with pieces in any order,
 * but the batches of each piece in order.  This is faster.
 *
 * The batches are those that cursors return, except that each piece is read
 * separately: adjacent chunks that are damaged or missing have a GAP event
 * each.
 *
 * Returns 0, or the value other than 0 that @fn has returned.
 * Errors: ARGUMENT (also if a vCPU is named twice), STREAM, IO, MEMORY.
 */
BTRAIL_API int btrail_parallel_decode(const struct btrail_trace *trace,
                                      const unsigned *vcpus, size_t n,
                                      unsigned flags, unsigned threads,
                                      btrail_parallel_fn *fn, void *opaque);

/* btrail_verify(): the most faults that are reported; all are counted */
#define BTRAIL_MAX_FAULTS   1000u

/**
 * struct btrail_fault - something in a trace that breaks a rule of the format
 * @in_stream: it is in a stream
 * @vcpu:      whose stream, if so
 * @index:     of the next record there, if so
 * @text:      what is wrong, in English; valid until the function returns
 */
struct btrail_fault {
    bool in_stream;
    unsigned vcpu;
    uint64_t index;
    const char *text;
};

typedef void btrail_fault_fn(void *opaque, const struct btrail_fault *fault);

/**
 * struct btrail_verify_result - what btrail_verify() has found
 * @complete:     nothing is wrong, and each record is there or in a GAP event
 * @lost_unknown: more than @lost, but nobody knows how many
 * @records:      that are there
 * @gaps:         GAP events of records that were lost
 * @lost:         records in them
 * @damage:       places that are missing or cannot be decoded
 * @faults:       how many, including those that were not reported
 */
struct btrail_verify_result {
    bool complete;
    bool lost_unknown;
    uint64_t records;
    uint64_t gaps;
    uint64_t lost;
    uint64_t damage;
    uint64_t faults;
};

/**
 * btrail_verify - check that a trace is complete and breaks no rule
 * @trace:   the trace
 * @threads: how many decode, including that of the caller; at least 1
 * @fn:      gets the first BTRAIL_MAX_FAULTS faults, in the caller's thread; or
 *           NULL
 * @opaque:  for @fn
 * @result:  gets what was found, also with an error
 *
 * Decodes all of it, and reads each file once more to see that it consists of
 * numbered chunks which the index has.
 *
 * Errors: ARGUMENT, IO, MEMORY.
 */
BTRAIL_API int btrail_verify(const struct btrail_trace *trace,
                             unsigned threads, btrail_fault_fn *fn,
                             void *opaque,
                             struct btrail_verify_result *result);

/*
 * Sideband: what turns addresses into names
 */

/* The largest piece of it */
#define BTRAIL_SIDEBAND_MAX_SIZE    (16u << 20)

/**
 * enum btrail_sideband_kind - what a piece of sideband is
 *
 * @BTRAIL_SIDEBAND_CODE:      code bytes of pages
 * @BTRAIL_SIDEBAND_SYMBOLS:   symbols of the kernel and its modules, as text
 *                             in the form of /proc/kallsyms
 * @BTRAIL_SIDEBAND_PROCESSES: a snapshot: processes, threads and mappings at
 *                             its time
 * @BTRAIL_SIDEBAND_IMAGE:     an ELF image that no file has, such as a vDSO
 * @BTRAIL_SIDEBAND_SYSCALLS:  the kernel's tables of system calls, as text
 * @BTRAIL_SIDEBAND_DYNAMIC:   functions of a program or library that were in
 *                             memory: an ELF file without code
 * @BTRAIL_SIDEBAND_TOLD_PROCESSES: as PROCESSES, on the guest's own word
 * @BTRAIL_SIDEBAND_TOLD_SYMBOLS: as SYMBOLS, on the guest's own word
 * @BTRAIL_SIDEBAND_HELD:      no data: at its time the SYMBOLS before it were
 *                             still the kernel's
 * @BTRAIL_SIDEBAND_ENDED:     its kernel was not seen to run after its time: a
 *                             number of 64 bits, the time at which that was
 *                             known
 */
enum btrail_sideband_kind {
    BTRAIL_SIDEBAND_CODE = 1,
    BTRAIL_SIDEBAND_SYMBOLS = 2,
    BTRAIL_SIDEBAND_PROCESSES = 3,
    BTRAIL_SIDEBAND_IMAGE = 4,
    BTRAIL_SIDEBAND_SYSCALLS = 5,
    BTRAIL_SIDEBAND_DYNAMIC = 6,
    BTRAIL_SIDEBAND_TOLD_PROCESSES = 7,
    BTRAIL_SIDEBAND_TOLD_SYMBOLS = 8,
    BTRAIL_SIDEBAND_HELD = 9,
    BTRAIL_SIDEBAND_ENDED = 10,
};

/**
 * struct btrail_sideband_info - a piece of sideband
 * @kind:     enum btrail_sideband_kind; readers skip others
 * @kernel:   number of the kernel that it is of; 0 if the trace has only one,
 *            or if it is of none
 * @size:     bytes, at most BTRAIL_SIDEBAND_MAX_SIZE
 * @time:     CLOCK_MONOTONIC of the host at which it is valid, or 0
 */
struct btrail_sideband_info {
    uint16_t kind;
    uint16_t kernel;
    uint32_t size;
    uint64_t time;
};

/**
 * btrail_trace_sideband - a piece of sideband
 * @i:    from 0, in the order of the files and of their chunks, which need not
 *        be the order of time.  A ring copies sideband from parts that it
 *        deletes, so the same piece can come twice.
 * @info: gets the description of the piece
 * @data: gets @info->size bytes, which the caller frees with free(); may be
 *        NULL
 *
 * Without @data, nothing is read and damage is not found.
 *
 * Errors: ARGUMENT, END (there are no more), IO, MEMORY, CORRUPT (this one is
 * damaged).
 */
BTRAIL_API int btrail_trace_sideband(const struct btrail_trace *trace,
                                     unsigned i,
                                     struct btrail_sideband_info *info,
                                     void **data);

/*
 * Writing
 */

struct btrail_writer;

/**
 * struct btrail_slab - records and events of one vCPU that belong together
 * @first_index: index that a first record would have
 * @cr3:         CR3 in force before the first event and record
 * @records, @n_records: the records
 * @events, @n_events:   the events, in order, see struct btrail_slab_desc
 */
struct btrail_slab {
    uint64_t first_index;
    uint64_t cr3;
    const struct btrail_record *records;
    size_t n_records;
    const struct btrail_event *events;
    size_t n_events;
};

/**
 * enum btrail_sync - when written data must reach the disk
 *
 * @BTRAIL_SYNC_END:      when a file is complete
 * @BTRAIL_SYNC_NONE:     when the host's kernel decides
 * @BTRAIL_SYNC_INTERVAL: an interval after the write, and when a file is
 *                        complete
 */
enum btrail_sync {
    BTRAIL_SYNC_END = 0,
    BTRAIL_SYNC_NONE = 1,
    BTRAIL_SYNC_INTERVAL = 2,
};

/* btrail_writer_open(): replace an existing file */
#define BTRAIL_WRITER_REPLACE       1u

/**
 * struct btrail_writer_options - how to write; every member can be 0
 * @flags:     BTRAIL_WRITER_*
 * @sync:      enum btrail_sync
 * @sync_interval: nanoseconds, for BTRAIL_SYNC_INTERVAL
 * @part_size: continue in another file, x.1.btrail after x.btrail, before a
 *             file gets larger than this; 0 for never
 * @ring_size: delete the oldest of these files before all of them together get
 *             larger than this; 0 for never.  Without @part_size there are
 *             about 8.  A chunk rarely has some 40 MiB; there must be room for
 *             more than one.
 * @begin:     enum btrail_gap_reason: why records before the first slab of a
 *             stream are not in the trace, such as BTRAIL_GAP_ELSEWHERE; 0 if
 *             streams begin with index 0
 * @id:        16 bytes that are the same in all files of a trace, including
 *             those of other writers; NULL for random ones
 */
struct btrail_writer_options {
    unsigned flags;
    enum btrail_sync sync;
    uint64_t sync_interval;
    uint64_t part_size;
    uint64_t ring_size;
    uint16_t begin;
    const uint8_t *id;
};

/**
 * btrail_writer_open - create a trace
 * @writer: gets the handle; free with btrail_writer_close()
 * @path:   file name
 * @flags:  BTRAIL_WRITER_*
 *
 * Errors: ARGUMENT, IO (errno is EEXIST if the file exists), MEMORY.
 */
BTRAIL_API int btrail_writer_open(struct btrail_writer **writer,
                                  const char *path, unsigned flags);

/**
 * btrail_writer_open_with - create a trace, with options
 * @options: is copied
 *
 * Otherwise as btrail_writer_open(); errno is also EEXIST if another part of
 * that name exists, and EBUSY if another process is writing a file that must be
 * replaced.
 */
BTRAIL_API int
btrail_writer_open_with(struct btrail_writer **writer, const char *path,
                        const struct btrail_writer_options *options);

/**
 * btrail_writer_meta - add a piece of description
 * @json:   a JSON object, UTF-8 without NUL
 * @length: at most 1 MiB
 *
 * Description that is added before the first slab is repeated in each part.
 *
 * Errors: ARGUMENT, IO.
 */
BTRAIL_API int btrail_writer_meta(struct btrail_writer *writer,
                                  const char *json, size_t length);

/**
 * btrail_writer_sideband - add a piece of sideband
 * @info: describes the piece
 * @data: @info->size bytes; may be NULL if that is 0
 *
 * Writes the piece immediately.  A ring copies the sideband of a part that it
 * deletes to a newer part: at most half the size of a part, and the newest
 * pieces.  It leaves out a piece that is larger than that.
 *
 * Errors: ARGUMENT, IO.
 */
BTRAIL_API int
btrail_writer_sideband(struct btrail_writer *writer,
                       const struct btrail_sideband_info *info,
                       const void *data);

/**
 * btrail_writer_append - add a slab to a stream
 * @vcpu: below BTRAIL_MAX_VCPUS
 * @slab: is copied
 *
 * A hole between the last record and this slab that no GAP event explains
 * gets one, with reason BTRAIL_GAP_CORRUPT.
 *
 * Errors: ARGUMENT, IO, MEMORY, SLAB (nothing was added).
 */
BTRAIL_API int btrail_writer_append(struct btrail_writer *writer,
                                    unsigned vcpu,
                                    const struct btrail_slab *slab);

/*
 * The 32-bit format of records
 *
 * A trace has records of one format, struct btrail_record, which holds 32-bit
 * records without loss.
 */

/**
 * struct btrail_record32 - one taken branch
 * @from:  as in struct btrail_record
 * @to:    as in struct btrail_record
 * @flags: BTRAIL_RECORD_*
 *
 * The 32-bit BTS record (SDM vol. 3, "32-bit Branch Trace Record Format"), of
 * processors without a 64-bit DS save area.
 */
struct btrail_record32 {
    uint32_t from;
    uint32_t to;
    uint32_t flags;
};

BTRAIL_STATIC_ASSERT(sizeof(struct btrail_record32) == 12, "record32 layout");

/**
 * btrail_writer_append_32 - add a slab of 32-bit records to a stream
 * @slab:    as for btrail_writer_append(), but its @records is NULL
 * @records: @slab->n_records of them; they are copied
 *
 * Otherwise as btrail_writer_append().  While it runs it needs 24 bytes of
 * memory for each record of the slab.
 */
BTRAIL_API int
btrail_writer_append_32(struct btrail_writer *writer, unsigned vcpu,
                        const struct btrail_slab *slab,
                        const struct btrail_record32 *records);

/**
 * btrail_records_from_32 - convert 32-bit records
 * @records: gets @n records
 * @from:    @n records; other memory than @records
 *
 * Errors: ARGUMENT.
 */
BTRAIL_API int btrail_records_from_32(struct btrail_record *records,
                                      const struct btrail_record32 *from,
                                      size_t n);

/**
 * btrail_records_to_32 - convert records to 32-bit records
 * @records: gets @n records
 * @from:    @n records; other memory than @records
 *
 * Errors: ARGUMENT; RANGE if an address or flags do not fit; the records before
 * that one have been converted.
 */
BTRAIL_API int btrail_records_to_32(struct btrail_record32 *records,
                                    const struct btrail_record *from,
                                    size_t n);

/**
 * btrail_writer_flush - write what was added as separate chunks
 *
 * Errors: ARGUMENT, IO.
 */
BTRAIL_API int btrail_writer_flush(struct btrail_writer *writer);

/**
 * btrail_writer_close - finish the file and free the writer
 * @writer: a writer or NULL
 *
 * After an IO error the file ends with its last whole chunk.
 *
 * Errors: IO.
 */
BTRAIL_API int btrail_writer_close(struct btrail_writer *writer);

/*
 * Repairing and merging
 */

/**
 * struct btrail_merge_result - what was copied to a new file
 * @chunks:       chunks of records and events that were copied
 * @records:      records in them
 * @bad_chunks:   chunks that were left out because they are damaged
 * @gaps:         GAP events that were added where something is missing
 * @lost:         records that these events report as missing
 * @lost_unknown: there may be more, at the end, whose number is unknown
 * @ends:         streams that got an END event, with reason BTRAIL_END_CUT
 */
struct btrail_merge_result {
    uint64_t chunks;
    uint64_t records;
    uint64_t bad_chunks;
    uint64_t gaps;
    uint64_t lost;
    bool lost_unknown;
    unsigned ends;
};

/**
 * struct btrail_repair_result - what a repair has found
 * @whole:     nothing is wrong with the file, and nothing was written
 * @cut:       only the end of the file is missing, so that it can be repaired
 *             in place
 * @no_header: the header is damaged: the new file has another id, and does not
 *             belong to the other files of its trace
 * @continued: the trace continues in another part
 * @copied:    what was kept; the GAP events have reason BTRAIL_GAP_CORRUPT
 */
struct btrail_repair_result {
    bool whole;
    bool cut;
    bool no_header;
    bool continued;
    struct btrail_merge_result copied;
};

/* btrail_repair(): beside BTRAIL_WRITER_REPLACE */
#define BTRAIL_REPAIR_IN_PLACE      0x100u

/**
 * btrail_repair - make a complete file of one that was cut off or damaged
 * @path:   the file, which only BTRAIL_REPAIR_IN_PLACE changes
 * @out:    name of the new file; NULL only to find out what is wrong
 * @flags:  BTRAIL_WRITER_REPLACE, to replace @out; or with NULL for @out
 *          BTRAIL_REPAIR_IN_PLACE, to complete the file itself
 * @result: gets what was found; may be NULL
 *
 * Copies all sound chunks as they are.  GAP events report what was in the
 * others, and between them; each stream ends with an END event, unless the
 * trace continues in a part beside the file.  The new file has an index.
 *
 * A file with a codec or a type of chunk that this library does not know stays
 * as it is.
 *
 * In place, cuts off only what is after the last whole chunk, and appends what
 * is missing; for a file that needs more the error is CORRUPT.
 *
 * Errors: ARGUMENT (also if @out is the file itself), IO (errno is EEXIST if
 * @out exists, EBUSY if another process writes the file that is to be
 * changed), MEMORY, FORMAT, VERSION, CORRUPT.
 */
BTRAIL_API int btrail_repair(const char *path, const char *out,
                             unsigned flags,
                             struct btrail_repair_result *result);

/**
 * btrail_merge - write a trace that consists of several files as one file
 * @trace:  from btrail_trace_open_files() or btrail_trace_open_parts(), which
 *          check that the files belong together
 * @out:    name of the new file
 * @flags:  BTRAIL_WRITER_REPLACE, to replace it
 * @result: gets what was done; may be NULL
 *
 * Copies chunks as they are, without decoding records.  For what cursors report
 * as missing there are GAP events with the same reasons.  If the last file was
 * cut off, streams without an END event get one.
 *
 * Errors: ARGUMENT (also if @out is one of the files), IO (errno is EEXIST if
 * @out exists), MEMORY, VERSION (a codec that this library does not know).
 */
BTRAIL_API int btrail_merge(const struct btrail_trace *trace,
                            const char *out, unsigned flags,
                            struct btrail_merge_result *result);

#ifdef __cplusplus
}
#endif

#endif /* BACKTRAIL_TRACE_H */
