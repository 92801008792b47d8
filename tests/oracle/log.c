/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's log, line by line
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow.h"
#include "log.h"

/* QEMU's cflags, in the fourth field. */
#define CF_COUNT_MASK   0x1ffu
#define CF_NOIRQ        (1u << 16)

#define SVM_EXIT_SHUTDOWN   0x7fu
#define SVM_EXIT_ERR        0xffffffffu

static size_t find_slot(const struct slot *t, size_t size, uint64_t host)
{
    size_t i = (host * 0x9e3779b97f4a7c15ull) >> 20 & (size - 1);

    while (t[i].host && t[i].host != host) {
        i = (i + 1) & (size - 1);
    }
    return i;
}

/* The translated block at this host address */
static struct slot *get_slot(struct derive *d, uint64_t host)
{
    if (d->table_used * 2 >= d->table_size) {
        size_t size = d->table_size ? d->table_size * 2 : 1 << 16;
        struct slot *t = must(d, calloc(size, sizeof(*t)));

        for (size_t i = 0; i < d->table_size; i++) {
            if (d->table[i].host) {
                t[find_slot(t, size, d->table[i].host)] = d->table[i];
            }
        }
        free(d->table);
        d->table = t;
        d->table_size = size;
    }
    return &d->table[find_slot(d->table, d->table_size, host)];
}

/* Find the instructions in the bytes of a block. */
static struct code *split(struct derive *d, const uint8_t *bytes,
                          unsigned len, uint32_t flags, unsigned max_insns)
{
    struct code *c = must(d, calloc(1, sizeof(*c)));
    uint16_t offset[CODE_MAX];
    unsigned at = 0;

    c->len = len;
    c->bytes = must(d, malloc(len));
    memcpy(c->bytes, bytes, len);
    if (max_insns == 1) {
        offset[c->insns++] = 0;
    } else {
        while (at < len) {
            unsigned n = insn_len(c->bytes + at, c->bytes + len, flags);

            offset[c->insns++] = at;
            /* An instruction that faults may not have been read to its end. */
            at = n ? at + n : len;
        }
    }
    offset[c->insns] = len;
    c->offset = must(d, malloc((c->insns + 1) * sizeof(*offset)));
    memcpy(c->offset, offset, (c->insns + 1) * sizeof(*offset));
    return c;
}

static uint64_t hex(const char **s)
{
    uint64_t v = 0;

    for (;; (*s)++) {
        char c = **s;

        if (c >= '0' && c <= '9') {
            v = v << 4 | (c - '0');
        } else if (c >= 'a' && c <= 'f') {
            v = v << 4 | (c - 'a' + 10);
        } else {
            return v;
        }
    }
}

static uint64_t field(struct derive *d, const char *line, const char *name)
{
    const char *s = strstr(line, name);

    if (!s) {
        fail(d, "no %s in: %s", name, line);
    }
    s += strlen(name);
    return hex(&s);
}

static bool starts(const char *line, const char *prefix)
{
    return !strncmp(line, prefix, strlen(prefix));
}

static void expect_char(struct derive *d, const char **s, char c)
{
    if (**s != c) {
        fail(d, "a Trace line that cannot be read");
    }
    (*s)++;
}

/* Trace 0: 0xHOST [CS_BASE/PC/FLAGS/CFLAGS] symbol */
static void on_trace(struct derive *d, const char *line)
{
    const char *s = line;
    struct slot *slot;
    struct code *code;
    uint64_t host;
    unsigned cflags;

    flow_commit(d);
    flow_finish_real_mode(d);
    if (!starts(s, "Trace 0: 0x")) {
        fail(d, "not one vCPU: %s", line);
    }
    s += strlen("Trace 0: 0x");
    host = hex(&s);
    expect_char(d, &s, ' ');
    expect_char(d, &s, '[');
    d->cand.cs_base = hex(&s);
    expect_char(d, &s, '/');
    d->cand.start = hex(&s);
    expect_char(d, &s, '/');
    d->cand.flags = hex(&s);
    expect_char(d, &s, '/');
    if (!(d->cand.flags & HF_CS64)) {
        d->cand.start &= 0xffffffff;   /* the log adds in 64 bits */
    }
    cflags = hex(&s);
    d->cand.max_insns = cflags & CF_COUNT_MASK;
    d->cand.resumes = cflags & CF_NOIRQ;
    d->cand.regs.valid = false;
    d->cand.loads_cr3 = d->cand.know_cr3 = false;

    slot = get_slot(d, host);
    if (d->fresh_len) {
        d->table_used += !slot->host;
        slot->host = host;
        code = split(d, d->fresh, d->fresh_len, d->cand.flags,
                     d->cand.max_insns);
        code->before = slot->code;
        slot->code = code;
        d->fresh_len = 0;
    } else if (!slot->host) {
        fail(d, "no bytes are known for the code at 0x%" PRIx64, host);
    }
    d->cand.code = slot->code;
    d->cand.valid = true;
    d->dump_to = &d->cand.regs;
}

static void on_code(struct derive *d, const char *line)
{
    const char *s = line + strlen("OBJD-T: ");

    while (*s) {
        char pair[3] = { s[0], s[1], 0 };
        const char *p = pair;

        if (d->fresh_len == CODE_MAX) {
            fail(d, "a block of more than %d bytes", CODE_MAX);
        }
        d->fresh[d->fresh_len++] = hex(&p);
        if (p != pair + 2) {
            fail(d, "bad code bytes: %s", line);
        }
        s += 2;
    }
}

/* N: v=VV e=EEEE i=I cpl=C IP=SEL:IP pc=PC SP=... */
static void on_interrupt(struct derive *d, const char *line)
{
    unsigned vector = field(d, line, ": v=");
    bool is_int = field(d, line, " i=");
    enum kind kind;

    flow_commit(d);
    if (d->saw_injection) {
        kind = K_INJECTED;
    } else if (is_int) {
        kind = K_INT;
    } else if (d->saw_exception) {
        kind = K_EXCEPTION;
        if (vector != d->exception_vector && vector != 8) {
            fail(d, "exception %u became %u", d->exception_vector, vector);
        }
    } else if (d->saw_hardware) {
        kind = K_HARDWARE;
    } else if (vector == VEC_DB && d->prev.last.kind == K_ICEBP &&
               !d->chain_len) {
        kind = K_ICEBP;
    } else {
        kind = K_ASYNC;
    }
    d->saw_exception = d->saw_hardware = d->saw_injection = false;
    flow_interruption(d, kind, vector);
    d->dump_regs.valid = false;
    d->dump_to = &d->dump_regs;
}

static void on_smi(struct derive *d)
{
    flow_commit(d);
    flow_finish_real_mode(d);
    flow_interruption(d, K_SMI, 0);
    d->dump_regs.valid = false;
    d->dump_to = &d->dump_regs;
}

/* vmexit(CODE, INFO1, INFO2, IP)! */
static void on_vmexit(struct derive *d, const char *line)
{
    const char *s = line + strlen("vmexit(");
    unsigned code = hex(&s);
    struct interruption *it;
    uint64_t base = 0;

    flow_commit(d);
    if (code == SVM_EXIT_ERR && d->prev.last.kind == K_VMRUN && !d->chain_len) {
        d->failed_vmrun = true;
        d->saw_exception = d->saw_hardware = d->saw_injection = false;
        return;
    }
    if (code == SVM_EXIT_SHUTDOWN) {
        d->saw_exception = false;
    }
    flow_finish_real_mode(d);
    d->saw_injection = false;
    s = strrchr(line, ' ');
    if (!s) {
        fail(d, "a vmexit line that cannot be read: %s", line);
    }
    s++;
    if (d->chain_len) {
        base = d->chain[d->chain_len - 1].base;
    } else if ((d->prev.flags & HF_GUEST) && !(d->prev.flags & HF_CS64)) {
        base = d->prev.cs_base;
    }
    it = flow_interruption(d, K_VMEXIT, code);
    it->from = hex(&s) + base;
    it->have_from = true;
    flow_merge_last(d);
}

static void on_reset(struct derive *d)
{
    flow_reset(d);
    d->dump_to = NULL;
}

/* CR3 is loaded by what was logged last. */
static void on_cr3(struct derive *d, uint64_t cr3)
{
    flow_commit(d);
    if (d->chain_len) {
        d->chain[d->chain_len - 1].loads_cr3 = true;
    } else {
        d->prev.loads_cr3 = true;
        d->prev.know_cr3 = d->prev.last.kind == K_MOVCR &&
                           d->prev.flags & HF_LMA;
        d->prev.new_cr3 = cr3;
    }
}

/*
 * CR3 as the trace has it: 0 without paging, and with bit 63 for PAE outside
 * of long mode
 */
static uint64_t space_of(const struct regs *r, uint64_t efer)
{
    bool pg = r->cr0 >> 31 & 1, pae = r->cr4 >> 5 & 1, lma = efer >> 10 & 1;

    return !pg ? 0 : r->cr3 | (uint64_t)(pae && !lma) << 63;
}

/* The lines of a register dump, and what belongs to it. */
static void on_dump_line(struct derive *d, const char *line)
{
    struct regs *r = d->dump_to;

    if (!r) {
        return;
    }
    if (starts(line, "RAX=") || starts(line, "EAX=")) {
        memset(r, 0, sizeof(*r));
        r->is64 = line[0] == 'R';
        r->cx = field(d, line, r->is64 ? "RCX=" : "ECX=");
    } else if (starts(line, "RSI=") || starts(line, "ESI=")) {
        r->sp = field(d, line, r->is64 ? "RSP=" : "ESP=");
    } else if (starts(line, "RIP=") || starts(line, "EIP=")) {
        r->ip = field(d, line, r->is64 ? "RIP=" : "EIP=");
        r->flags = field(d, line, r->is64 ? "RFL=" : "EFL=");
    } else if (starts(line, "CS =")) {
        const char *s = line + strlen("CS =0000 ");

        r->cs_base = hex(&s);
    } else if (starts(line, "SS =")) {
        const char *s = line + strlen("SS =0000 ");

        r->ss_base = hex(&s);
    } else if (starts(line, "CR0=")) {
        r->cr0 = field(d, line, "CR0=");
        r->cr3 = field(d, line, "CR3=");
        r->cr4 = field(d, line, "CR4=");
    } else if (starts(line, "EFER=")) {
        r->space = space_of(r, field(d, line, "EFER="));
        r->valid = true;
        d->dump_to = NULL;
        if (r == &d->dump_regs && !d->chain_len && d->prev.last.kind == K_RSM) {
            d->prev.loads_cr3 = d->prev.know_cr3 = true;
            d->prev.new_cr3 = r->space;
        } else if (r == &d->dump_regs && d->chain_len &&
                   !d->chain[d->chain_len - 1].have_from) {
            struct interruption *it = &d->chain[d->chain_len - 1];

            it->base = r->is64 ? 0 : r->cs_base;
            it->from = r->is64 ? r->ip : (r->cs_base + r->ip) & 0xffffffff;
            it->have_from = true;
            it->have_cr3 = true;
            it->cr3 = r->space;
            flow_merge_last(d);
        }
    }
}

static void on_line(struct derive *d, const char *line)
{
    static const char *const types[] = { "INTR", "NMI", "EXEPT", "SOFT" };

    if (starts(line, "Injecting(")) {
        /* Not ended by a newline if the event is delivered at once. */
        flow_commit(d);
        line = strstr(line, ": ");
        if (!line) {
            fail(d, "an Injecting line that cannot be read");
        }
        line += 2;
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            if (starts(line, types[i])) {
                line += strlen(types[i]);
                break;
            }
        }
        d->saw_injection = true;
    }
    switch (line[0]) {
    case 'T':
        if (starts(line, "Trace ")) {
            on_trace(d, line);
        } else if (starts(line, "Triple fault")) {
            d->saw_exception = false;
        }
        break;
    case 'O':
        if (starts(line, "OBJD-T: ")) {
            on_code(d, line);
        }
        break;
    case 'S':
        if (starts(line, "Stopped execution of TB chain before ")) {
            if (!d->cand.valid) {
                fail(d, "stopped before an instruction that was not started");
            }
            d->cand.valid = false;
            d->have_hint = true;
            d->hint = d->cand.start;
        } else if (starts(line, "Servicing hardware INT=") ||
                   starts(line, "Servicing virtual hardware INT=")) {
            flow_commit(d);
            flow_finish_real_mode(d);
            d->saw_hardware = true;
        } else if (starts(line, "SMM: enter")) {
            on_smi(d);
        } else if (starts(line, "SMM: after RSM")) {
            flow_commit(d);
            d->dump_regs.valid = false;
            d->dump_to = &d->dump_regs;
        } else {
            on_dump_line(d, line);
        }
        break;
    case 'c':
        if (starts(line, "check_exception old: ")) {
            flow_commit(d);
            flow_finish_real_mode(d);
            d->saw_exception = true;
            d->exception_vector = field(d, line, " new 0x");
        }
        break;
    case 'v':
        if (starts(line, "vmrun! ")) {
            flow_commit(d);
        } else if (starts(line, "vmexit(")) {
            on_vmexit(d, line);
        }
        break;
    case 'C':
        if (starts(line, "CPU Reset (CPU 0)")) {
            on_reset(d);
        } else if (starts(line, "CR3 update: ")) {
            on_cr3(d, field(d, line, "CR3="));
        } else {
            on_dump_line(d, line);
        }
        break;
    case 'I':
        if (starts(line, "IN: ")) {
            d->fresh_len = 0;
        }
        break;
    case 'u':
        if (starts(line, "unable to read memory")) {
            fail(d, "QEMU could not read the bytes of an instruction");
        }
        break;
    case 'R':
    case 'E':
        on_dump_line(d, line);
        break;
    default:
        if ((line[0] == ' ' || (line[0] >= '0' && line[0] <= '9')) &&
            strstr(line, ": v=")) {
            on_interrupt(d, line);
        }
        break;
    }
}

void log_read(struct derive *d)
{
    static char buf[1 << 20];
    size_t have = 0;

    for (;;) {
        ssize_t n = read(STDIN_FILENO, buf + have, sizeof(buf) - have);
        char *p = buf, *end, *nl;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            fail(d, "cannot read the log: %s", strerror(errno));
        }
        if (n == 0) {
            break;      /* what has no newline was cut off */
        }
        have += n;
        end = buf + have;
        while ((nl = memchr(p, '\n', end - p))) {
            *nl = 0;
            d->line_no++;
            on_line(d, p);
            p = nl + 1;
        }
        have = end - p;
        if (have == sizeof(buf)) {
            fail(d, "a line of more than %zu bytes", sizeof(buf));
        }
        memmove(buf, p, have);
    }
}
