/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: perf-records FILE
 *
 * Prints the branch records that "perf record -e intel_bts//" has written to
 * FILE, one a line, "FROM => TO" in hexadecimal; fails if some were lost.
 *
 * That is what was recorded.  perf script takes the last record of each piece
 * of AUX area for none (intel_bts_process_buffer: "sz > bsz"), and printing
 * them raw (-D) takes long.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* perf's own: tools/perf/util/event.h and header.h */
#define PERF_RECORD_AUXTRACE    71
#define MAGIC                   "PERFILE2"

struct file_header {
    char magic[8];
    uint64_t size, attr_size, attrs_offset, attrs_size, data_offset, data_size;
};

struct auxtrace {
    struct perf_event_header header;
    uint64_t size, offset, reference;
    uint32_t index, tid, cpu, reserved;
};

struct aux {
    struct perf_event_header header;
    uint64_t offset, size, flags;
};

static FILE *file;

static void get(void *data, size_t size, uint64_t offset)
{
    if (fseek(file, offset, SEEK_SET) || fread(data, size, 1, file) != 1) {
        fprintf(stderr, "perf-records: cannot read %zu bytes at %#llx\n",
                size, (unsigned long long)offset);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct file_header header;
    uint64_t at, end, next = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: perf-records FILE\n");
        return 2;
    }
    file = fopen(argv[1], "rb");
    if (!file) {
        fprintf(stderr, "perf-records: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    get(&header, sizeof(header), 0);
    if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0) {
        fprintf(stderr, "perf-records: %s is none of perf's\n", argv[1]);
        return 1;
    }
    at = header.data_offset;
    end = at + header.data_size;
    while (at < end) {
        struct perf_event_header event;
        struct auxtrace trace;
        struct aux aux;

        get(&event, sizeof(event), at);
        if (event.size < sizeof(event)) {
            fprintf(stderr, "perf-records: an event has %u bytes\n",
                    event.size);
            return 1;
        }
        if (event.type == PERF_RECORD_LOST) {
            fprintf(stderr, "perf-records: events were lost\n");
            return 1;
        }
        if (event.type == PERF_RECORD_AUX) {
            get(&aux, sizeof(aux), at);
            if (aux.flags) {
                fprintf(stderr, "perf-records: the AUX area has flags %#llx\n",
                        (unsigned long long)aux.flags);
                return 1;
            }
        }
        if (event.type == PERF_RECORD_AUXTRACE) {
            get(&trace, sizeof(trace), at);
            /* At the end of the area there is no room for a whole record. */
            if (trace.offset - next >= 24 || trace.size % 24) {
                fprintf(stderr, "perf-records: %#llx bytes at %#llx of the "
                        "AUX area, not at %#llx\n",
                        (unsigned long long)trace.size,
                        (unsigned long long)trace.offset,
                        (unsigned long long)next);
                return 1;
            }
            next = trace.offset + trace.size;
            at += event.size;
            for (uint64_t n = 0; n < trace.size; n += 24) {
                uint64_t record[3];

                get(record, sizeof(record), at + n);
                /* The driver fills up with zeros. */
                if (record[0] || record[1]) {
                    printf("%llx => %llx\n", (unsigned long long)record[0],
                           (unsigned long long)record[1]);
                }
            }
            at += trace.size;
            continue;
        }
        at += event.size;
    }
    return 0;
}
