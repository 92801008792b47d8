/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: stock-reader QMP [PID [DESCRIPTOR]]
 *
 * Finds the memory of a guest that stands still, prints where it is, and
 * answers to lines:
 *
 *   read ADDRESS SIZE      bytes of the guest's memory
 *   code CR3 ADDRESS       what is left of the page, by the page tables
 *   ring FILE              of Intel PT: how many records it has, and bytes that
 *                          were decoded, skipped, of the host
 *   names                  processes that the scanner finds
 *
 * An answer is a line, or lines up to one that is empty.  The descriptor is of
 * the process's memory, if another program has opened it.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest-linux/scanner.h"
#include "pt/flow.h"
#include "pt/frozen-code.h"
#include "pt/pt-ring.h"
#include "pt/stock-memory.h"
#include "pt/written-code.h"

#define TIMEOUT_MS  60000
#define MOST        (1u << 20)

static void print_hex(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        printf("%02x", bytes[i]);
    }
    puts("");
}

static void print_process(const struct btrail_process *p)
{
    printf("process %u %" PRIx64 " %" PRIx64 " %s\n", p->pid, p->pgd,
           p->user_pgd, p->comm);
    for (uint32_t i = 0; i < p->n_threads; i++) {
        printf("thread %u %u %s\n", p->pid, p->threads[i].tid,
               p->threads[i].comm);
    }
}

static void take_piece(void *opaque, const struct scanner_piece *piece)
{
    const struct btrail_snapshot *s = piece->snapshot;
    bool *done = opaque;

    for (uint32_t i = 0; s && !*done && i < s->n; i++) {
        print_process(&s->processes[i]);
    }
    *done |= s != NULL;
}

/* What a producer would be told */
static void take_resending(void *opaque, uint64_t nested, bool begin)
{
}

static void take_kernel(void *opaque, uint64_t nested, const char *release,
                        char **missing)
{
}

static void take_tasks(void *opaque, uint64_t nested,
                       const struct btrail_tasks *tasks)
{
}

static void print_names(const struct stock_memory *m)
{
    static const struct scanner_ops ops = {
        take_piece, take_resending, take_kernel, take_tasks,
    };
    struct btrail_budget *kept = btrail_budget_new_fixed(BTRAIL_BUDGET_GUEST,
                                                         4);
    struct scanner_result result = { 0 };
    struct scanner *scanner;
    bool done = false;

    scanner = scanner_new(m->files, true, NULL, kept, &ops, &done);
    scanner_request(scanner);
    scanner_wait(scanner);
    scanner_finish(scanner, &result);
    printf("release %s\n", result.release ? result.release : "none");
    for (char **p = result.missing; p && *p; p++) {
        printf("missing %s\n", *p);
    }
    puts("");
    scanner_result_clear(&result);
    btrail_budget_unref(kept);
}

static struct frozen_code *new_code(const struct stock_memory *m,
                                    const struct guest_memory *memory)
{
    struct frozen_code_options o = { 0 };
    g_autofree uint64_t *roots = g_new(uint64_t, m->vcpus->len);

    o.roots = roots;
    for (guint i = 0; i < m->vcpus->len; i++) {
        const struct stock_vcpu *v = &g_array_index(m->vcpus,
                                                    struct stock_vcpu, i);

        if (v->levels > FROZEN_CODE_UNPAGED) {
            roots[o.n_roots++] = v->registers.cr3;
            o.levels = v->levels;
        }
    }
    return frozen_code_new(memory, &o);
}

static void drop_records(void *opaque, const struct btrail_record *records,
                         size_t n, const struct pt_flow_event *events,
                         size_t n_events)
{
}

/* Of 64-bit code with page tables of four levels */
static void print_ring(const struct guest_memory *memory,
                       struct frozen_code *code, const char *path)
{
    static const struct pt_flow_options options;
    struct pt_ring_bytes ring = { 0 };
    const struct pt_flow_count *count;
    struct written_code *written;
    struct pt_flow *flow;

    if (!pt_ring_from_file(path, &ring, NULL)) {
        puts("none");
        return;
    }
    written = written_code_new(memory, 4, frozen_code_read, code);
    flow = pt_flow_new(&options, written_code_read, written, drop_records,
                       NULL);
    pt_flow_feed(flow, ring.bytes[0], ring.size[0]);
    pt_flow_feed(flow, ring.bytes[1], ring.size[1]);
    pt_flow_finish(flow);
    count = pt_flow_counted(flow);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           count->records, count->decoded, count->skipped, count->host);
    pt_flow_free(flow);
    written_code_free(written);
    pt_ring_clear(&ring);
}

static void answer(const struct stock_memory *m,
                   const struct guest_memory *memory, struct frozen_code *code,
                   const char *line)
{
    static const struct pt_moment moment;
    struct pt_code found;
    uint64_t a, b;

    if (sscanf(line, "read %" SCNx64 " %" SCNx64, &a, &b) == 2 && b <= MOST) {
        g_autofree uint8_t *bytes = g_malloc(b);

        if (guest_memory_read(memory, a, bytes, b)) {
            print_hex(bytes, b);
        } else {
            puts("none");
        }
    } else if (sscanf(line, "code %" SCNx64 " %" SCNx64, &a, &b) == 2) {
        if (frozen_code_read(code, a, b, &moment, &found) == PT_CODE_READ) {
            print_hex(found.bytes, found.size);
        } else {
            puts("none");
        }
    } else if (g_str_has_prefix(line, "ring ")) {
        g_autofree char *path = g_strstrip(g_strdup(line + strlen("ring ")));

        print_ring(memory, code, path);
    } else if (g_str_has_prefix(line, "names")) {
        print_names(m);
    } else {
        puts("?");
    }
    fflush(stdout);
}

static void print_found(const struct stock_memory *m)
{
    printf("pid %d size %" PRIx64 "\n", (int)m->pid, m->size);
    for (uint32_t i = 0; i < m->files->head.ranges; i++) {
        const struct btrail_memory_range *r = &m->files->ranges[i];

        printf("range %" PRIx64 " %" PRIx64 " %u\n", r->address, r->size,
               r->file);
    }
    for (guint i = 0; i < m->vcpus->len; i++) {
        const struct stock_vcpu *v = &g_array_index(m->vcpus,
                                                    struct stock_vcpu, i);

        printf("vcpu %u %d %" PRIx64 " %u\n", v->number, (int)v->thread,
               v->registers.cr3, v->levels);
    }
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct qmp *qmp = argc < 2 ? NULL :
                      qmp_connect(argv[1], TIMEOUT_MS, -1, &error);
    struct stock_memory *m = qmp ?
        stock_memory_open(qmp, argc > 2 ? atoi(argv[2]) : 0,
                          argc > 3 ? atoi(argv[3]) : -1, TIMEOUT_MS, -1,
                          &error) : NULL;
    struct guest_memory *memory;
    struct frozen_code *code;
    char line[4096];

    qmp_free(qmp);
    if (!m) {
        fprintf(stderr, "stock-reader: %s\n", error ? error->message :
                "usage: stock-reader QMP [PID [DESCRIPTOR]]");
        return 1;
    }
    print_found(m);
    memory = guest_memory_open(m->files);
    code = new_code(m, memory);
    while (fgets(line, sizeof(line), stdin)) {
        answer(m, memory, code, line);
    }
    frozen_code_free(code);
    guest_memory_free(memory);
    stock_memory_free(m);
    return 0;
}
