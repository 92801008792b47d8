/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: an agent with a producer that may do anything
 *
 * Whatever the producer does, the session ends by itself and its file is sound:
 * each stream has its END.  The input is described in producer.h.
 */

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fuzz.h"
#include "producer.h"
#include "drain/capture.h"

static void check_stream(struct btrail_trace *trace, unsigned n)
{
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool ended = false;
    int ret;

    fuzz_require(!btrail_trace_stream(trace, n, &info));
    fuzz_require(!btrail_cursor_open(&cursor, trace, info.vcpu, 0));
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        fuzz_require(!ended && !b.synthetic);
        ended = b.event && b.event->type == BTRAIL_EVENT_END;
    }
    fuzz_require(ret == -BTRAIL_ERR_END && ended);
    fuzz_require(!btrail_cursor_bad_chunks(cursor));
    btrail_cursor_close(cursor);
}

static void check_file(int fd)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    unsigned i;

    fuzz_require(!btrail_trace_open_fd(&trace, fd));
    fuzz_require(!btrail_trace_status(trace, &status));
    fuzz_require(status.complete && status.indexed && !status.bad_chunks);
    for (i = 0; i < btrail_trace_streams(trace); i++) {
        check_stream(trace, i);
    }
    btrail_trace_close(trace);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct session_settings options = { 0 };
    struct capture_options capture_options = { 0 };
    struct capture_result capture_result;
    struct session_result result;
    struct session *session;
    struct capture *capture;
    struct producer p;
    char path[64];
    const struct btrail_store_options store = { path, .replace = true };

    fuzz_require(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_require(!btrail_store_open(&options.store, &store));
    producer_init(&p, data, size);
    options.metadata = json_object_new();
    session = session_new(&options, NULL);
    capture_options.sock = p.agent_sock;
    /* All records may be there already. */
    capture_options.sessions = &session;
    capture_options.n_sessions = 1;
    capture = capture_start(&capture_options);
    producer_later(&p);
    capture_finish(capture, &capture_result);
    g_clear_error(&capture_result.error);
    session_finish(session, &result);
    json_object_unref(options.metadata);
    /* The producer is gone: without an END that is an error. */
    fuzz_require(result.error || result.reason != BTRAIL_END_PRODUCER_LOST);
    if (result.progress.records) {
        fuzz_accepted();
    }
    g_clear_error(&result.error);
    producer_clear(&p);
    check_file(fd);
    return 0;
}
