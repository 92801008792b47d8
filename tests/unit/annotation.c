/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts of instructions: random programs that are executed here, with
 * interrupts, calls, gaps and code that changes
 */

#include <glib.h>
#include <string.h>

#include "analyze/annotation.h"
#include "code-samples.h"
#include "trace-samples.h"

#define KERNEL      UINT64_C(0xffffffff81000000)
#define HANDLER     (KERNEL + 0x800)    /* nop; iretq */
#define CALLEE      (KERNEL + 0x900)    /* ret */
#define INSNS       60u
#define RECORDS     1500u
#define VCPUS       2u
#define ROUNDS      25u
#define CHANGE      700u        /* from this record on, code is other code */
#define SPLIT       500u        /* a filter has the records from here on */
#define FILTER      "index >= 500"

enum kind { OTHER, JUMP, CONDITIONAL, CALL };

struct insn {
    enum kind kind;
    unsigned offset;
    unsigned length;
    unsigned target;            /* of a jump: an instruction */
};

struct scene {
    struct insn insns[INSNS];
    unsigned size;
    uint8_t bytes[2][BTRAIL_CODE_PAGE_SIZE];
    struct btrail_record records[VCPUS][RECORDS];
    bool lost[VCPUS][RECORDS];
    /* By version, of blocks that end before SPLIT, or after it */
    uint64_t counts[2][2][INSNS];
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
};

static const char *const nops[] = {
    "", "\x90", "\x66\x90", "\x0f\x1f\x00", "\x0f\x1f\x40\x00",
    "\x0f\x1f\x44\x00\x00", "\x66\x0f\x1f\x44\x00\x00",
};

static void make_program(struct scene *s, GRand *rand)
{
    s->size = 0;
    for (unsigned i = 0; i < INSNS; i++) {
        static const unsigned lengths[] = { [JUMP] = 5, [CONDITIONAL] = 6,
                                            [CALL] = 5 };
        unsigned kind = (unsigned)g_rand_int_range(rand, 0, 12);
        struct insn *n = &s->insns[i];

        /* The first one differs when code changes; the last one goes back. */
        n->kind = !i ? OTHER : i == INSNS - 1 ? JUMP :
                  kind > CALL ? OTHER : (enum kind)kind;
        n->offset = s->size;
        n->length = !i ? 1 : n->kind == OTHER ?
                    (unsigned)g_rand_int_range(rand, 1, G_N_ELEMENTS(nops)) :
                    lengths[n->kind];
        n->target = i == INSNS - 1 ? 0 :
                    (unsigned)g_rand_int_range(rand, 0, INSNS);
        s->size += n->length;
    }
}

static void put_relative(uint8_t *bytes, const struct insn *n, uint64_t to)
{
    int32_t relative = (int32_t)(to - (KERNEL + n->offset + n->length));

    memcpy(bytes + n->offset + n->length - 4, &relative, 4);
}

static void assemble(const struct scene *s, uint8_t *bytes, bool changed)
{
    memset(bytes, 0xcc, BTRAIL_CODE_PAGE_SIZE);
    for (unsigned i = 0; i < INSNS; i++) {
        const struct insn *n = &s->insns[i];
        uint8_t *at = bytes + n->offset;

        switch (n->kind) {
        case OTHER:
            memcpy(at, nops[n->length], n->length);
            break;
        case JUMP:
            at[0] = 0xe9;
            put_relative(bytes, n, KERNEL + s->insns[n->target].offset);
            break;
        case CONDITIONAL:
            at[0] = 0x0f;
            at[1] = 0x84;
            put_relative(bytes, n, KERNEL + s->insns[n->target].offset);
            break;
        case CALL:
            at[0] = 0xe8;
            put_relative(bytes, n, CALLEE);
            break;
        }
    }
    bytes[0] = changed ? 0xf8 : 0x90;
    memcpy(bytes + (HANDLER - KERNEL), "\x90\x48\xcf", 3);
    bytes[CALLEE - KERNEL] = 0xc3;
}

/* A vCPU while it executes the program */
struct cpu {
    struct scene *s;
    unsigned vcpu;
    unsigned n;
    uint64_t block[INSNS];      /* executed since the last record */
};

/* The block is over; if something is missing before, nobody knows it. */
static void add_record(struct cpu *c, GRand *rand, uint64_t from, uint64_t to)
{
    struct scene *s = c->s;
    unsigned version = c->n >= CHANGE;

    if (c->n == RECORDS) {
        return;
    }
    s->records[c->vcpu][c->n] = (struct btrail_record) { from, to, 0 };
    s->lost[c->vcpu][c->n] = !c->n || !g_rand_int_range(rand, 0, 60);
    if (!s->lost[c->vcpu][c->n]) {
        for (unsigned i = 0; i < INSNS; i++) {
            s->counts[version][c->n >= SPLIT][i] += c->block[i];
        }
    }
    memset(c->block, 0, sizeof(c->block));
    c->n++;
}

static void execute(struct scene *s, GRand *rand, unsigned vcpu)
{
    struct cpu c = { .s = s, .vcpu = vcpu };
    unsigned pc = 0;

    while (c.n < RECORDS) {
        const struct insn *n = &s->insns[pc];
        uint64_t at = KERNEL + n->offset;

        if (!g_rand_int_range(rand, 0, 30)) {
            /* An interrupt: the instruction is executed afterwards. */
            add_record(&c, rand, at, HANDLER);
            add_record(&c, rand, HANDLER + 1, at);
            continue;
        }
        c.block[pc]++;
        if (n->kind == CALL) {
            add_record(&c, rand, at, CALLEE);
            add_record(&c, rand, CALLEE, at + n->length);
            pc++;
        } else if (n->kind == JUMP ||
                   (n->kind == CONDITIONAL && g_rand_int_range(rand, 0, 2))) {
            add_record(&c, rand, at, KERNEL + s->insns[n->target].offset);
            pc = n->target;
        } else {
            pc++;
        }
    }
}

static void write_records(const struct scene *s, struct btrail_writer *w,
                          unsigned vcpu)
{
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE,
                                           sizeof(struct btrail_event));
    struct btrail_slab slab = {
        .cr3 = 0x5000, .records = s->records[vcpu], .n_records = RECORDS,
    };

    for (unsigned i = 1; i < RECORDS; i++) {
        const struct btrail_event gap = {
            .index = i, .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW, .data = { 0 },
        };

        if (s->lost[vcpu][i]) {
            g_array_append_val(events, gap);
        }
    }
    slab.events = (const struct btrail_event *)events->data;
    slab.n_events = events->len;
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

static void open_trace(struct scene *s, bool changes)
{
    static const char map[] =
        "ffffffff81000000 T wanted\nffffffff81000800 T asm_exc_nmi\n"
        "ffffffff81000900 T callee\nffffffff81000a00 T others\n";
    struct sample_code pages[2 * VCPUS];
    struct btrail_writer *w;
    unsigned n = 0;

    for (unsigned version = 0; version < 1u + changes; version++) {
        for (unsigned v = 0; v < VCPUS; v++) {
            pages[n++] = (struct sample_code) {
                .vcpu = v, .index = version ? CHANGE : 0, .cr3 = 0x5000,
                .address = KERNEL, .bytes = s->bytes[version],
                .n = BTRAIL_CODE_PAGE_SIZE,
            };
        }
    }
    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    sample_code(w, pages, n);
    for (unsigned v = 0; v < VCPUS; v++) {
        write_records(s, w, v);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->symbols = sample_symbolizer(s->trace, map);
}

static void scene_init(struct scene *s, GRand *rand, bool changes)
{
    memset(s, 0, sizeof(*s));
    make_program(s, rand);
    assemble(s, s->bytes[0], false);
    assemble(s, s->bytes[1], true);
    for (unsigned v = 0; v < VCPUS; v++) {
        execute(s, rand, v);
    }
    open_trace(s, changes);
}

static void scene_clear(struct scene *s)
{
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    sample_remove(s->path);
}

struct listing {
    const struct scene *s;
    const uint8_t *bytes;
    uint64_t counts[INSNS];
    unsigned n;
    unsigned end;
};

static void check_line(void *opaque, const struct annotation_line *line)
{
    struct listing *l = opaque;
    const struct insn *n = &l->s->insns[l->n];

    if (l->n == l->end) {
        /* What fills the function up is not executed. */
        g_assert_cmpuint(line->count, ==, 0);
        return;
    }
    g_assert_cmphex(line->address, ==, KERNEL + n->offset);
    g_assert_cmpuint(line->count, ==, l->counts[l->n]);
    g_assert_cmpmem(line->bytes, line->length, l->bytes + n->offset,
                    n->length);
    g_assert_cmpint(line->source, ==, ANNOTATION_TRACE);
    l->n++;
}

/* What was executed of a version; nothing if there is no such one.  @first and
 * @end are instructions. */
static void check_version(const struct scene *s,
                          const struct annotation_code *code, bool changes,
                          unsigned version, bool filtered, unsigned first,
                          unsigned end)
{
    struct listing l = { s, s->bytes[version], .n = first, .end = end };
    struct annotation_version *found = NULL;
    uint64_t all = 0;

    for (unsigned i = first; i < end; i++) {
        for (unsigned v = 0; v < 2; v++) {
            for (unsigned late = filtered; late < 2; late++) {
                l.counts[i] += !changes || v == version ?
                               s->counts[v][late][i] : 0;
            }
        }
        all += l.counts[i];
    }
    for (unsigned i = 0; i < code->versions->len; i++) {
        struct annotation_version *v = code->versions->pdata[i];

        if (first || v->bytes[0] == s->bytes[version][0]) {
            g_assert_null(found);
            found = v;
        }
    }
    g_assert_true(found || !all);
    if (found) {
        annotation_lines(code, found, check_line, &l);
        g_assert_cmpuint(l.n, ==, end);
    }
}

/* @first, @end: of the instructions of a range; @first == @end: the function */
static void check(const struct scene *s, bool changes, unsigned first,
                  unsigned end, bool filtered)
{
    bool by_range = first < end;
    uint64_t start = KERNEL + (by_range ? s->insns[first].offset : 0);
    struct filter *f = filtered ? filter_parse(FILTER, NULL) : NULL;
    const struct annotation_options options = {
        .names = s->symbols, .function = by_range ? NULL : "wanted",
        .range = { start, KERNEL + s->insns[end].offset }, .filter = f,
        .window = WINDOW_ALL(0), .threads = 2,
    };
    const struct annotation_code *code;
    struct annotation a;

    g_assert_cmpint(annotation_read(&a, s->trace, &options), ==, 0);
    g_assert_cmpuint(a.unknown, ==, 0);
    g_assert_cmpuint(a.beyond, ==, 0);
    g_assert_cmpuint(a.damage, ==, 0);
    g_assert_cmpuint(a.records, ==, VCPUS * (RECORDS - (
        filtered ? SPLIT : 0)));
    g_assert_cmpuint(a.codes->len, ==, 1);
    code = a.codes->pdata[0];
    g_assert_cmphex(code->start, ==, start);
    g_assert_cmpuint(code->size, ==, by_range ? s->insns[end].offset -
                     s->insns[first].offset : 0x800);
    g_assert_cmpuint(code->bits, ==, code->versions->len ? 64 : 0);
    g_assert_cmpuint(code->versions->len, <=, 1 + changes);
    for (unsigned version = 0; version < 1u + changes; version++) {
        check_version(s, code, changes, version, filtered, first,
                      by_range ? end : INSNS);
    }
    annotation_clear(&a);
    filter_free(f);
}

static void check_random(bool changes)
{
    GRand *rand = g_rand_new_with_seed(changes);
    struct scene *s = g_new0(struct scene, 1);

    for (unsigned round = 0; round < ROUNDS; round++) {
        scene_init(s, rand, changes);
        check(s, changes, 0, 0, false);
        check(s, changes, 0, 0, true);
        /* With the first one, code that changes has two versions. */
        check(s, changes, 0, INSNS - 1, false);
        check(s, changes, changes ? 0 : 7, 30, false);
        scene_clear(s);
    }
    g_free(s);
    g_rand_free(rand);
}

static void test_random(void)
{
    check_random(false);
}

/* Each version has what was executed while its bytes were there. */
static void test_changes(void)
{
    check_random(true);
}

/* A branch that the code before it does not lead to: records are missing. */
static void test_unknown(void)
{
    static const struct btrail_record wrong[][2] = {
        /* Into the middle of an instruction */
        { { HANDLER + 1, KERNEL, 0 }, { KERNEL + 2, KERNEL, 0 } },
        /* Behind a jump that is always taken */
        { { HANDLER + 1, KERNEL, 0 }, { KERNEL + 9, KERNEL, 0 } },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        struct scene *s = g_new0(struct scene, 1);
        const struct annotation_options options = {
            .function = "wanted", .window = WINDOW_ALL(0), .threads = 1,
        };
        struct annotation_options all = options;
        struct annotation a;

        /* 0: nop of 1 byte, 1: of 3 bytes, 4: a jump to 0, 9: nop */
        memset(s->bytes[0], 0x90, BTRAIL_CODE_PAGE_SIZE);
        memcpy(s->bytes[0] + 1, "\x0f\x1f\x00\xe9\xf7\xff\xff\xff", 8);
        s->bytes[0][HANDLER - KERNEL + 1] = 0x48;
        s->bytes[0][HANDLER - KERNEL + 2] = 0xcf;
        for (unsigned v = 0; v < VCPUS; v++) {
            for (unsigned k = 0; k < RECORDS; k++) {
                s->records[v][k] = wrong[i][k % 2];
                s->lost[v][k] = !(k % 2);
            }
        }
        open_trace(s, false);
        all.names = s->symbols;
        g_assert_cmpint(annotation_read(&a, s->trace, &all), ==, 0);
        g_assert_cmpuint(a.unknown, ==, VCPUS * RECORDS / 2);
        annotation_clear(&a);
        scene_clear(s);
        g_free(s);
    }
}

static void add_line(void *opaque, const struct annotation_line *line)
{
    g_array_append_val((GArray *)opaque, *line);
}

/*
 * The same bytes in three modes: 48 b9 01 00 is dec ax; mov cx, 1 in 16 bits,
 * dec eax; mov ecx, N in 32, and mov rcx, N in 64.  CR3 says the mode.
 */
static void test_modes(void)
{
    static const uint8_t bytes[] = {
        0x48, 0xb9, 1, 0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
        0xeb, 0xf4,             /* to the beginning */
    };
    static const struct {
        uint64_t cr3;
        unsigned bits;
        unsigned lengths[10];
    } modes[] = {
        { BTRAIL_CR3_CODE16, 16, { 1, 3, 1, 1, 1, 1, 1, 1, 2 } },
        { BTRAIL_CR3_CODE32, 32, { 1, 5, 1, 1, 1, 1, 2 } },
        { 0, 64, { 10, 2 } },
    };
    enum { AT = 0x7c00, TIMES = 5 };
    struct btrail_record records[TIMES * G_N_ELEMENTS(modes)];
    struct btrail_event events[G_N_ELEMENTS(modes)];
    struct annotation_options options = {
        .range = { AT, AT + sizeof(bytes) }, .window = WINDOW_ALL(0),
        .threads = 1,
    };
    struct scene *s = g_new0(struct scene, 1);
    struct btrail_slab slab = { .cr3 = modes[0].cr3, .records = records,
        .n_records = G_N_ELEMENTS(records), .events = events,
        .n_events = G_N_ELEMENTS(modes),
    };
    struct sample_code page = {
        .address = AT, .bytes = s->bytes[0], .n = BTRAIL_CODE_PAGE_SIZE,
    };
    const struct annotation_code *code;
    struct btrail_writer *w;
    struct annotation a;

    page.address = AT & ~(BTRAIL_CODE_PAGE_SIZE - 1);
    memcpy(s->bytes[0] + AT % BTRAIL_CODE_PAGE_SIZE, bytes, sizeof(bytes));
    for (unsigned i = 0; i < G_N_ELEMENTS(records); i++) {
        records[i] = (struct btrail_record) { AT + 10, AT, 0 };
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
        events[i] = (struct btrail_event) {
            .index = i * TIMES, .type = BTRAIL_EVENT_CR3,
            .data = { modes[i].cr3 },
        };
    }
    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    sample_code(w, &page, 1);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    options.names = s->symbols = sample_symbolizer(s->trace, "");

    g_assert_cmpint(annotation_read(&a, s->trace, &options), ==, 0);
    g_assert_cmpuint(a.unknown, ==, 0);
    g_assert_cmpuint(a.codes->len, ==, 1);
    code = a.codes->pdata[0];
    g_assert_cmpuint(code->versions->len, ==, G_N_ELEMENTS(modes));
    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
        struct annotation_version *v = code->versions->pdata[i];
        GArray *lines = g_array_new(FALSE, FALSE,
                                    sizeof(struct annotation_line));

        g_assert_cmpuint(v->bits, ==, modes[i].bits);
        annotation_lines(code, v, add_line, lines);
        for (unsigned k = 0; k < lines->len; k++) {
            const struct annotation_line *line =
                &g_array_index(lines, struct annotation_line, k);

            g_assert_cmpuint(line->length, ==, modes[i].lengths[k]);
            /* The first block of all began before the trace. */
            g_assert_cmpuint(line->count, ==, TIMES - !i);
        }
        g_assert_cmpuint(modes[i].lengths[lines->len], ==, 0);
        g_array_unref(lines);
    }
    annotation_clear(&a);
    scene_clear(s);
    g_free(s);
}

/* A function that is not there has others whose names are like it. */
static void test_closest(void)
{
    GRand *rand = g_rand_new_with_seed(9);
    struct scene *s = g_new0(struct scene, 1);
    struct annotation_options options = {
        .function = "wantd", .window = WINDOW_ALL(0), .threads = 1,
    };
    struct annotation a;

    scene_init(s, rand, false);
    options.names = s->symbols;
    g_assert_cmpint(annotation_read(&a, s->trace, &options), ==, 0);
    g_assert_cmpuint(a.codes->len, ==, 0);
    g_assert_cmpstr(a.closest.found, ==, "wanted");
    annotation_clear(&a);
    scene_clear(s);
    g_free(s);
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/annotation/random", test_random);
    g_test_add_func("/annotation/changes", test_changes);
    g_test_add_func("/annotation/unknown", test_unknown);
    g_test_add_func("/annotation/modes", test_modes);
    g_test_add_func("/annotation/closest", test_closest);
    return g_test_run();
}
