/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: several files that are one trace, and merging them
 *
 * The input is up to four files, each with its size (u32) before it.  The
 * merged file says what the files say together, without anything that a
 * reader has to make up.
 */

#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "read.h"

#define MAX_FILES   4

static void merge(const struct btrail_trace *trace)
{
    struct fuzz_file out = fuzz_file(NULL, 0);
    struct fuzz_sum want = fuzz_read(trace), got;
    struct btrail_trace_status status, merged_status;
    struct btrail_merge_result r;
    struct btrail_trace *merged;
    int ret = btrail_merge(trace, out.path, BTRAIL_WRITER_REPLACE, &r);

    btrail_trace_status(trace, &status);
    if (ret) {
        fuzz_require(ret == -BTRAIL_ERR_VERSION || ret == -BTRAIL_ERR_MEMORY);
        close(out.fd);
        return;
    }
    fuzz_require(!btrail_trace_open(&merged, out.path));
    btrail_trace_status(merged, &merged_status);
    fuzz_require(merged_status.complete && merged_status.indexed &&
                 !merged_status.bad_chunks);
    fuzz_require(merged_status.continued == status.continued);
    got = fuzz_read(merged);
    fuzz_require(got.sideband == want.sideband);
    if (want.all && got.all) {
        fuzz_require(got.records == want.records && got.end == want.end);
        fuzz_require(got.bad <= want.bad);
        fuzz_require(want.bad || !got.synthetic);
    }
    btrail_trace_close(merged);
    close(out.fd);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    struct fuzz_file files[MAX_FILES];
    const char *paths[MAX_FILES];
    struct btrail_trace *trace;
    unsigned n = 0, i;

    while (n < MAX_FILES && size >= sizeof(uint32_t)) {
        uint32_t len;

        memcpy(&len, data, sizeof(len));
        data += sizeof(len);
        size -= sizeof(len);
        if (len > size) {
            len = size;
        }
        files[n] = fuzz_file(data, len);
        paths[n] = files[n].path;
        data += len;
        size -= len;
        n++;
    }
    if (n && !btrail_trace_open_files(&trace, paths, n)) {
        fuzz_accepted();
        merge(trace);
        btrail_trace_close(trace);
    }
    for (i = 0; i < n; i++) {
        close(files[i].fd);
    }
    return 0;
}
