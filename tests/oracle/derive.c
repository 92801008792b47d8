/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Derive the taken branches of a guest from QEMU's own execution log
 *
 * The oracle of the branch trace: it shares no code with the producer, the
 * agent or QEMU.  It reads, on its standard input, the log of
 *
 *     -icount ... -accel tcg -d exec,nochain,int,in_asm,cpu_reset,mmu
 *
 * of a guest with one vCPU, best with one-insn-per-tb=on and ",cpu" (the
 * registers at each instruction), which is too slow for a large guest.  It
 * writes what tests/oracle/run compares with the trace:
 *
 *     PREFIX.records   struct btrail_record[] (24 bytes each); bits 16 to 63 of
 *                      the flags are the instructions executed before, and bit
 *                      0 says that QEMU may have counted one more, from here on
 *     PREFIX.spans     "index own|nested cr3|?" for each address space,
 *                      index being the first record in it
 *     PREFIX.resets    index of the first record after each reset
 *     PREFIX.insns     "pc mode bytes" for each instruction executed
 *     PREFIX.code      each block when it is executed, see struct executed,
 *                      and its bytes
 *
 * and counts on its standard output.  It fails on anything in the log that
 * it cannot explain: it must never guess.
 *
 * How it works.  The log has a line per block of instructions executed, one
 * per exception or interrupt delivered, and the bytes of each block when it is
 * translated.  Only the last instruction P of a block can branch; it has if it
 * is an unconditional branch, or if the next block N does not begin where P
 * ends.  If interruptions lie between them, each has its own address F (that
 * of the instruction that would have run next), and the path is P -> F -> ...
 * -> N.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "log.h"

void fail(const struct derive *d, const char *fmt, ...)
{
    const struct insn *last = &d->prev.last;
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "derive: log line %" PRIu64 ": ", d->line_no);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n  last instruction: pc=%" PRIx64 " kind=%s bytes=",
            last->pc, kind_name[last->kind]);
    for (unsigned i = 0; i < last->len; i++) {
        fprintf(stderr, "%02x", last->bytes[i]);
    }
    fprintf(stderr, " flags=%08x, %" PRIu64 " instructions, %" PRIu64
            " records so far\n", d->prev.flags, d->insn_count,
            d->flushed + d->queue_len);
    exit(1);
}

void *must(const struct derive *d, void *p)
{
    if (!p) {
        fail(d, "out of memory");
    }
    return p;
}

static FILE *open_output(const char *prefix, const char *suffix)
{
    char name[4096];
    FILE *f;

    if (snprintf(name, sizeof(name), "%s.%s", prefix, suffix) >=
        (int)sizeof(name)) {
        fprintf(stderr, "derive: name too long: %s\n", prefix);
        exit(2);
    }
    f = fopen(name, "w");
    if (!f) {
        fprintf(stderr, "derive: cannot create %s: %s\n", name,
                strerror(errno));
        exit(2);
    }
    return f;
}

static void close_output(struct derive *d, FILE *f)
{
    if (ferror(f) || fclose(f)) {
        fail(d, "cannot write: %s", strerror(errno));
    }
}

static void print_counts(const struct derive *d)
{
    printf("instructions %" PRIu64 "\n", d->insn_count);
    printf("records %" PRIu64 "\n", d->flushed);
    printf("interruptions %" PRIu64 "\n", d->interruption_count);
    printf("resumed %" PRIu64 "\n", d->resumed_count);
    for (int k = 0; k < K_MAX; k++) {
        for (int m = 0; m < M_MAX; m++) {
            if (d->count[k][m]) {
                printf("kind %s/%s %" PRIu64 "\n", kind_name[k], mode_name[m],
                       d->count[k][m]);
            }
        }
    }
    for (int v = 0; v < 256; v++) {
        if (d->vectors[v]) {
            printf("vector %d %" PRIu64 "\n", v, d->vectors[v]);
        }
    }
}

int main(int argc, char **argv)
{
    static struct derive derive = { .span_known = true };
    struct derive *d = &derive;

    if (argc != 2) {
        fprintf(stderr, "usage: derive PREFIX <log\n");
        return 2;
    }
    d->out_records = open_output(argv[1], "records");
    d->out_spans = open_output(argv[1], "spans");
    d->out_resets = open_output(argv[1], "resets");
    d->out_insns = open_output(argv[1], "insns");
    d->out_code = open_output(argv[1], "code");

    log_read(d);
    flow_end(d);
    close_output(d, d->out_records);
    close_output(d, d->out_spans);
    close_output(d, d->out_resets);
    close_output(d, d->out_insns);
    close_output(d, d->out_code);

    if (!d->insn_count) {
        fail(d, "no instruction in the log");
    }
    print_counts(d);
    return 0;
}
