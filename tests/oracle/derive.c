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
 *     PREFIX.records   struct btrail_record[] (24 bytes each)
 *     PREFIX.spans     "index cr3" or "index ?" for each address space,
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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSN_MAX        15          /* longest x86 instruction */
#define CODE_MAX        8192        /* bytes in a block */
#define CHAIN_MAX       64          /* interruptions between two instructions */
#define FLUSH_RECORDS   65536

/* QEMU's hflags, as printed in the third field of a Trace line. */
#define HF_CS32         (1u << 4)
#define HF_PE           (1u << 7)
#define HF_LMA          (1u << 14)
#define HF_CS64         (1u << 15)
#define HF_VM           (1u << 17)
#define HF_SMM          (1u << 19)
#define HF_GUEST        (1u << 21)

/* QEMU's cflags, in the fourth field. */
#define CF_COUNT_MASK   0x1ffu
#define CF_NOIRQ        (1u << 16)

#define EFL_CF          0x001u
#define EFL_PF          0x004u
#define EFL_ZF          0x040u
#define EFL_SF          0x080u
#define EFL_OF          0x800u

#define VEC_DB          1
#define VEC_NMI         2

#define SVM_EXIT_EXCP_DB    0x41u
#define SVM_EXIT_INTR       0x60u
#define SVM_EXIT_VINTR      0x64u
#define SVM_EXIT_SHUTDOWN   0x7fu
#define SVM_EXIT_ERR        0xffffffffu

/* What an instruction may do to the flow of control. */
enum kind {
    K_NONE, K_REP, K_MOVCR3,
    K_JCC, K_LOOP, K_JCXZ, K_INTO,
    K_JMP, K_CALL,
    K_JMP_IND, K_CALL_IND, K_RET,
    K_FAR_JMP, K_FAR_CALL, K_FAR_RET, K_IRET,
    K_INT, K_INT3, K_ICEBP,
    K_SYSCALL, K_SYSRET, K_SYSENTER, K_SYSEXIT, K_RSM, K_VMRUN,
    /* not instructions: */
    K_HARDWARE, K_ASYNC, K_SMI, K_VMEXIT, K_INJECTED, K_EXCEPTION,
    K_MAX
};

static const char *const kind_name[K_MAX] = {
    "none", "rep", "movcr3", "jcc", "loop", "jcxz", "into", "jmp", "call",
    "jmp_ind", "call_ind", "ret", "far_jmp", "far_call", "far_ret", "iret",
    "int", "int3", "icebp", "syscall", "sysret", "sysenter", "sysexit",
    "rsm", "vmrun", "hardware", "nmi", "smi", "vmexit", "injected",
    "exception",
};

enum mode {
    M_REAL, M_VM86, M_PROT16, M_PROT32, M_COMPAT16, M_COMPAT32, M_LONG, M_MAX
};

static const char *const mode_name[M_MAX] = {
    "real", "vm86", "prot16", "prot32", "compat16", "compat32", "long",
};

/* A translated block.  Never freed: a step may still point to it. */
struct code {
    struct code *before;    /* what was translated to the same place */
    unsigned len, insns;
    uint16_t *offset;       /* of each instruction, and one for the end */
    uint8_t *bytes;
    uint8_t listed;         /* mode + 1 for which it is in PREFIX.insns */
};

struct slot {
    uint64_t host;          /* address of the translation, 0 = free */
    struct code *code;
};

struct regs {
    bool valid;
    uint64_t cr3, ip, sp, cx, ss_base, cs_base;
    uint32_t flags;
    bool is64;
};

/* A block that was executed; pc and what follows tell of its last insn. */
struct step {
    bool valid;
    uint64_t start, cs_base;
    uint32_t flags;
    unsigned max_insns;     /* asked of the translator, 0 = no limit */
    bool resumes;           /* goes on in the middle of the one before */
    struct code *code;
    uint64_t pc;
    const uint8_t *bytes;
    unsigned len;
    enum kind kind;
    bool opsize16, has_target;
    uint8_t addr_bits, cond;
    uint64_t target;
    struct regs regs;
    bool loads_cr3;
    uint64_t new_cr3;
};

struct interruption {
    enum kind kind;
    unsigned vector;        /* K_EXCEPTION: vector; K_VMEXIT: exit code */
    bool have_from;
    uint64_t from;
    uint64_t base;          /* of CS there, 0 in 64-bit mode */
    bool have_cr3;
    uint64_t cr3;
    bool exits;             /* its delivery ended in a #VMEXIT */
    bool loads_cr3;
    uint64_t new_cr3;
};

struct record {
    uint64_t from, to, flags;
};

/*
 * A record whose interrupted address is not in the log: an interrupt in real
 * mode after a branch whose target depends on memory, or in a string
 * instruction that may or may not go on.  The iret that takes the frame off
 * the stack tells it.
 */
struct pending_frame {
    uint64_t sp;            /* linear address of the frame */
    int64_t to_patch;       /* record whose .to it is, -1 if none */
    int64_t from_patch;     /* record whose .from it is, -1 if not made yet */
};

static struct slot *table;
static size_t table_size, table_used;

static uint8_t fresh[CODE_MAX]; /* bytes printed, not bound to a block yet */
static unsigned fresh_len;

static struct step prev, cand;
static struct interruption chain[CHAIN_MAX];
static int chain_len;
static bool saw_exception, saw_hardware, saw_injection, failed_vmrun;
static unsigned exception_vector;
static bool have_hint;
static uint64_t hint;

static struct record *queue;
static size_t queue_len, queue_size;
static uint64_t flushed;

static struct pending_frame frames[16];
static int frame_count;

static bool span_known = true;
static uint64_t span_cr3;

static struct regs *dump_to;
static struct regs dump_regs;

static uint64_t line_no, insn_count, interruption_count, resumed_count;
static uint64_t count[K_MAX][M_MAX];
static uint64_t vectors[256];
static FILE *out_records, *out_spans, *out_resets, *out_insns, *out_code;

/* A block that was executed: records before it, and where it begins */
struct executed {
    uint64_t index;
    uint64_t start;
    uint32_t len;
    uint32_t long_mode;
};

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *fmt, ...)
{
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "derive: log line %" PRIu64 ": ", line_no);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n  last instruction: pc=%" PRIx64 " kind=%s bytes=",
            prev.pc, kind_name[prev.kind]);
    for (unsigned i = 0; i < prev.len; i++) {
        fprintf(stderr, "%02x", prev.bytes[i]);
    }
    fprintf(stderr, " flags=%08x, %" PRIu64 " instructions, %" PRIu64
            " records so far\n", prev.flags, insn_count, flushed + queue_len);
    exit(1);
}

static void *must(void *p)
{
    if (!p) {
        fail("out of memory");
    }
    return p;
}

/* Translated blocks, by the host address of their translation. */

static size_t find_slot(const struct slot *t, size_t size, uint64_t host)
{
    size_t i = (host * 0x9e3779b97f4a7c15ull) >> 20 & (size - 1);

    while (t[i].host && t[i].host != host) {
        i = (i + 1) & (size - 1);
    }
    return i;
}

static struct slot *get_slot(uint64_t host)
{
    if (table_used * 2 >= table_size) {
        size_t size = table_size ? table_size * 2 : 1 << 16;
        struct slot *t = must(calloc(size, sizeof(*t)));

        for (size_t i = 0; i < table_size; i++) {
            if (table[i].host) {
                t[find_slot(t, size, table[i].host)] = table[i];
            }
        }
        free(table);
        table = t;
        table_size = size;
    }
    return &table[find_slot(table, table_size, host)];
}

static enum mode mode_of(uint32_t flags)
{
    if (!(flags & HF_PE)) {
        return M_REAL;
    }
    if (flags & HF_VM) {
        return M_VM86;
    }
    if (flags & HF_CS64) {
        return M_LONG;
    }
    if (flags & HF_LMA) {
        return flags & HF_CS32 ? M_COMPAT32 : M_COMPAT16;
    }
    return flags & HF_CS32 ? M_PROT32 : M_PROT16;
}

/* Bytes of the ModRM byte at b and of what belongs to it, 0 if cut off. */
static unsigned modrm_len(const uint8_t *b, const uint8_t *end, int addr_bits)
{
    unsigned mod, rm;

    if (b >= end) {
        return 0;
    }
    mod = b[0] >> 6;
    rm = b[0] & 7;
    if (mod == 3) {
        return 1;
    }
    if (addr_bits == 16) {
        return 1 + (mod == 0 ? (rm == 6) * 2 : mod);
    }
    if (rm == 4) {
        if (b + 1 >= end) {
            return 0;
        }
        return 2 + (mod == 1 ? 1 : mod == 2 || (b[1] & 7) == 5 ? 4 : 0);
    }
    return 1 + (mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0);
}

/*
 * Length of the instruction at b, 0 if it is cut off.  Blocks end with what
 * is not decoded (see split), so this need not know invalid instructions.
 */
static unsigned insn_len(const uint8_t *b, const uint8_t *end, uint32_t flags)
{
    bool is64 = flags & HF_CS64, is32 = flags & HF_CS32;
    bool p66 = false, p67 = false, rex_w = false, modrm = false;
    const uint8_t *start = b;
    unsigned map = 0, imm = 0, len, z;
    int addr_bits;
    uint8_t op;

    for (; b < end; b++) {
        if (*b == 0x66) {
            p66 = true;
        } else if (*b == 0x67) {
            p67 = true;
        } else if (*b != 0xf0 && *b != 0xf2 && *b != 0xf3 && *b != 0x26 &&
                   *b != 0x2e && *b != 0x36 && *b != 0x3e && *b != 0x64 &&
                   *b != 0x65) {
            break;
        }
    }
    addr_bits = is64 ? (p67 ? 32 : 64) : (is32 ? p67 : !p67) ? 16 : 32;
    if (b < end && is64 && (*b & 0xf0) == 0x40) {
        rex_w = *b++ & 8;
    }
    z = is64 ? (p66 && !rex_w ? 2 : 4) : (is32 ? p66 : !p66) ? 2 : 4;
    if (end - b < 2) {
        return b < end ? b + 1 - start : 0;
    }
    op = *b++;
    if ((op == 0xc4 || op == 0xc5 || op == 0x62) && (is64 || *b >= 0xc0)) {
        /* VEX and EVEX: the map, then a classic opcode of that map */
        unsigned prefix = op == 0xc5 ? 1 : op == 0xc4 ? 2 : 3;

        if (end - b < (int)prefix + 2) {
            return 0;
        }
        map = op == 0xc5 ? 1 : *b & 7;
        b += prefix;
        op = *b++;
        if (!(map == 1 && op == 0x77)) {
            modrm = true;
        }
    } else if (op == 0x0f) {
        op = *b++;
        map = op == 0x38 ? 2 : op == 0x3a ? 3 : 1;
        if (map > 1) {
            if (b == end) {
                return 0;
            }
            op = *b++;
            modrm = true;
        } else {
            switch (op) {
            case 0x04 ... 0x09:
            case 0x0b:
            case 0x0e:
            case 0x30 ... 0x37:
            case 0x77:
            case 0xa0 ... 0xa2:
            case 0xa8 ... 0xaa:
            case 0xc8 ... 0xcf:
                break;
            case 0x80 ... 0x8f:
                imm = is64 ? 4 : z;
                break;
            case 0x20 ... 0x23:
                /* Moves from and to CRn and DRn ignore the mod field. */
                return b + 1 > end ? 0 : b + 1 - start;
            default:
                modrm = true;
                break;
            }
        }
    }
    if (map == 3) {
        imm = 1;
    } else if (map == 1) {
        switch (op) {
        case 0x0f:
        case 0x70 ... 0x73:
        case 0xa4:
        case 0xac:
        case 0xba:
        case 0xc2:
        case 0xc4 ... 0xc6:
            imm = 1;
            break;
        }
    } else if (map == 0) {
        switch (op) {
        case 0x00 ... 0x3f:
            modrm = (op & 7) < 4;
            imm = (op & 7) == 4 ? 1 : (op & 7) == 5 ? z : 0;
            break;
        case 0x62:
        case 0x63:
        case 0x84 ... 0x8f:
        case 0xc4:
        case 0xc5:
        case 0xd0 ... 0xd3:
        case 0xd8 ... 0xdf:
        case 0xfe:
        case 0xff:
            modrm = true;
            break;
        case 0x69:
        case 0x81:
        case 0xc7:
            modrm = true;
            imm = z;
            break;
        case 0x6b:
        case 0x80:
        case 0x82:
        case 0x83:
        case 0xc0:
        case 0xc1:
        case 0xc6:
            modrm = true;
            imm = 1;
            break;
        case 0x68:
        case 0xa9:
            imm = z;
            break;
        case 0xe8:
        case 0xe9:
            imm = is64 ? 4 : z;
            break;
        case 0x6a:
        case 0x70 ... 0x7f:
        case 0xa8:
        case 0xb0 ... 0xb7:
        case 0xcd:
        case 0xd4:
        case 0xd5:
        case 0xe0 ... 0xe7:
        case 0xeb:
            imm = 1;
            break;
        case 0x9a:
        case 0xea:
            imm = z + 2;
            break;
        case 0xa0 ... 0xa3:
            imm = addr_bits / 8;
            break;
        case 0xb8 ... 0xbf:
            imm = rex_w ? 8 : z;
            break;
        case 0xc2:
        case 0xca:
            imm = 2;
            break;
        case 0xc8:
            imm = 3;
            break;
        case 0xf6:
        case 0xf7:
            modrm = true;
            if (b < end && !(*b & 0x30)) {
                imm = op == 0xf6 ? 1 : z;   /* test */
            }
            break;
        }
    }
    if (modrm) {
        len = modrm_len(b, end, addr_bits);
        if (!len) {
            return 0;
        }
        b += len;
    }
    return imm > end - b ? 0 : b + imm - start;
}

/* Find the instructions in the bytes of a block. */
static struct code *split(const uint8_t *bytes, unsigned len, uint32_t flags,
                          unsigned max_insns)
{
    struct code *c = must(calloc(1, sizeof(*c)));
    uint16_t offset[CODE_MAX];
    unsigned at = 0;

    c->len = len;
    c->bytes = must(malloc(len));
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
    c->offset = must(malloc((c->insns + 1) * sizeof(*offset)));
    memcpy(c->offset, offset, (c->insns + 1) * sizeof(*offset));
    return c;
}

/* Index of the instruction of a block at pc, -1 if none begins there. */
static int insn_at(const struct step *s, uint64_t pc)
{
    uint64_t offset = pc - s->start;

    if (offset < s->code->len) {
        for (unsigned i = 0; i < s->code->insns; i++) {
            if (s->code->offset[i] == offset) {
                return i;
            }
        }
    }
    return -1;
}

/* Find out what an instruction does, from its bytes. */
static void classify(struct step *s)
{
    const uint8_t *b = s->bytes;
    int n = s->len, i = 0;
    bool is64 = s->flags & HF_CS64, is32 = s->flags & HF_CS32;
    bool p66 = false, p67 = false, rep = false;
    int rel_bytes = -1;
    uint8_t op;

    s->kind = K_NONE;
    s->has_target = false;
    for (; i < n; i++) {
        if (b[i] == 0x66) {
            p66 = true;
        } else if (b[i] == 0x67) {
            p67 = true;
        } else if (b[i] == 0xf2 || b[i] == 0xf3) {
            rep = true;
        } else if (b[i] != 0xf0 && b[i] != 0x26 && b[i] != 0x2e &&
                   b[i] != 0x36 && b[i] != 0x3e && b[i] != 0x64 &&
                   b[i] != 0x65 && !(is64 && (b[i] & 0xf0) == 0x40)) {
            break;
        }
    }
    s->opsize16 = !is64 && (is32 ? p66 : !p66);
    s->addr_bits = is64 ? (p67 ? 32 : 64) : (is32 ? p67 : !p67) ? 16 : 32;
    if (i >= n) {
        return;
    }
    op = b[i++];
    switch (op) {
    case 0x6c ... 0x6f:
    case 0xa4 ... 0xa7:
    case 0xaa ... 0xaf:
        if (rep) {
            s->kind = K_REP;
        }
        break;
    case 0x70 ... 0x7f:
        s->kind = K_JCC;
        s->cond = op & 15;
        rel_bytes = n - i;
        break;
    case 0x9a:
        s->kind = K_FAR_CALL;
        break;
    case 0xc2:
    case 0xc3:
        s->kind = K_RET;
        break;
    case 0xca:
    case 0xcb:
        s->kind = K_FAR_RET;
        break;
    case 0xcc:
        s->kind = K_INT3;
        break;
    case 0xcd:
        s->kind = K_INT;
        break;
    case 0xce:
        s->kind = K_INTO;
        break;
    case 0xcf:
        s->kind = K_IRET;
        break;
    case 0xe0 ... 0xe2:
        s->kind = K_LOOP;
        s->cond = op & 3;
        rel_bytes = n - i;
        break;
    case 0xe3:
        s->kind = K_JCXZ;
        rel_bytes = n - i;
        break;
    case 0xe8:
        s->kind = K_CALL;
        rel_bytes = n - i;
        break;
    case 0xe9:
    case 0xeb:
        s->kind = K_JMP;
        rel_bytes = n - i;
        break;
    case 0xea:
        s->kind = K_FAR_JMP;
        break;
    case 0xf1:
        s->kind = K_ICEBP;
        break;
    case 0xff:
        switch (i < n ? b[i] >> 3 & 7 : 0) {
        case 2:
            s->kind = K_CALL_IND;
            break;
        case 3:
            s->kind = K_FAR_CALL;
            break;
        case 4:
            s->kind = K_JMP_IND;
            break;
        case 5:
            s->kind = K_FAR_JMP;
            break;
        }
        break;
    case 0x0f:
        if (i >= n) {
            break;
        }
        op = b[i++];
        switch (op) {
        case 0x01:
            if (i < n && b[i] == 0xd8) {
                s->kind = K_VMRUN;
            }
            break;
        case 0x05:
            s->kind = K_SYSCALL;
            break;
        case 0x07:
            s->kind = K_SYSRET;
            break;
        case 0x22:
            if (i < n && (b[i] >> 3 & 7) == 3) {
                s->kind = K_MOVCR3;
            }
            break;
        case 0x34:
            s->kind = K_SYSENTER;
            break;
        case 0x35:
            s->kind = K_SYSEXIT;
            break;
        case 0x80 ... 0x8f:
            s->kind = K_JCC;
            s->cond = op & 15;
            rel_bytes = n - i;
            break;
        case 0xaa:
            s->kind = K_RSM;
            break;
        }
        break;
    }
    if (rel_bytes >= 0) {
        int64_t rel;
        uint64_t ip = s->pc - (is64 ? 0 : s->cs_base);

        switch (rel_bytes) {
        case 1:
            rel = (int8_t)b[i];
            break;
        case 2:
            rel = (int16_t)(b[i] | b[i + 1] << 8);
            break;
        case 4:
            rel = (int32_t)(b[i] | b[i + 1] << 8 | b[i + 2] << 16 |
                            (uint32_t)b[i + 3] << 24);
            break;
        default:
            fail("a branch with %d bytes of displacement", rel_bytes);
        }
        ip += n + rel;
        if (!is64) {
            ip = s->opsize16 ? ip & 0xffff : ip & 0xffffffff;
            s->target = (s->cs_base + ip) & 0xffffffff;
        } else {
            s->target = ip;
        }
        s->has_target = true;
    }
}

/* The flow of control leaves s at its instruction number index. */
static void set_last(struct step *s, unsigned index)
{
    const uint16_t *offset = s->code->offset;

    s->pc = s->start + offset[index];
    if (!(s->flags & HF_CS64)) {
        s->pc &= 0xffffffff;
    }
    s->bytes = s->code->bytes + offset[index];
    s->len = offset[index + 1] - offset[index];
    classify(s);
}

/* Does pc follow right behind s? */
static bool is_next(const struct step *s, uint64_t pc)
{
    uint64_t next = s->pc + s->len;

    if (s->flags & HF_CS64) {
        return pc == next;
    }
    if (pc == (next & 0xffffffff)) {
        return true;
    }
    /* 16-bit code may run over the end of its 64 KiB. */
    return !(s->flags & HF_CS32) &&
           pc == ((s->cs_base + ((next - s->cs_base) & 0xffff)) & 0xffffffff);
}

static uint64_t next_of(const struct step *s)
{
    uint64_t next = s->pc + s->len;

    return s->flags & HF_CS64 ? next : next & 0xffffffff;
}

static uint64_t count_register(const struct step *s, uint64_t cx)
{
    return s->addr_bits == 64 ? cx : cx & ((1ull << s->addr_bits) - 1);
}

/* Is the conditional branch s taken, given the registers before it? */
static bool is_taken(const struct step *s)
{
    uint32_t f = s->regs.flags;
    uint64_t left;
    bool r;

    if (s->kind == K_JCC) {
        switch (s->cond >> 1) {
        case 0:
            r = f & EFL_OF;
            break;
        case 1:
            r = f & EFL_CF;
            break;
        case 2:
            r = f & EFL_ZF;
            break;
        case 3:
            r = f & (EFL_CF | EFL_ZF);
            break;
        case 4:
            r = f & EFL_SF;
            break;
        case 5:
            r = f & EFL_PF;
            break;
        case 6:
            r = !(f & EFL_SF) != !(f & EFL_OF);
            break;
        default:
            r = (f & EFL_ZF) || !(f & EFL_SF) != !(f & EFL_OF);
            break;
        }
        return r != (s->cond & 1);
    }
    if (s->kind == K_JCXZ) {
        return count_register(s, s->regs.cx) == 0;
    }
    if (s->kind == K_INTO) {
        return f & EFL_OF;
    }
    left = count_register(s, s->regs.cx - 1);
    return left && (s->cond == 2 || s->cond == !!(f & EFL_ZF));
}

/* Records and address spaces. */

static void flush_queue(void)
{
    if (queue_len && fwrite(queue, sizeof(*queue), queue_len, out_records) !=
        queue_len) {
        fail("cannot write the records: %s", strerror(errno));
    }
    flushed += queue_len;
    queue_len = 0;
}

static int64_t emit(uint64_t from, uint64_t to, enum kind kind, uint32_t flags)
{
    if (queue_len == queue_size) {
        queue_size = queue_size ? queue_size * 2 : 2 * FLUSH_RECORDS;
        queue = must(realloc(queue, queue_size * sizeof(*queue)));
    }
    if (!frame_count && queue_len >= FLUSH_RECORDS) {
        flush_queue();
    }
    queue[queue_len].from = from;
    queue[queue_len].to = to;
    queue[queue_len].flags = 0;
    count[kind][mode_of(flags)]++;
    return flushed + queue_len++;
}

static uint64_t span_start;

static void end_span(void)
{
    fprintf(out_spans, "%" PRIu64 " ", span_start);
    if (span_known) {
        fprintf(out_spans, "%" PRIx64 "\n", span_cr3);
    } else {
        fprintf(out_spans, "?\n");
    }
}

static void begin_span(bool known, uint64_t cr3)
{
    end_span();
    span_start = flushed + queue_len;
    span_known = known;
    span_cr3 = known ? cr3 : 0;
}

/* A register dump tells CR3. */
static void learn_cr3(uint64_t cr3)
{
    if (!span_known) {
        span_known = true;
        span_cr3 = cr3;
    } else if (span_cr3 != cr3) {
        fail("CR3 went from %" PRIx64 " to %" PRIx64 " by itself", span_cr3,
             cr3);
    }
}

/* Real-mode frames whose return address is not known yet. */

static void patch(int64_t record, bool to, uint64_t value)
{
    if (record >= 0) {
        struct record *r = &queue[record - flushed];

        *(to ? &r->to : &r->from) = value;
    }
}

static void resolve_frame(uint64_t sp, uint64_t value)
{
    for (int i = frame_count - 1; i >= 0; i--) {
        if (frames[i].sp == sp) {
            patch(frames[i].to_patch, true, value);
            patch(frames[i].from_patch, false, value);
            frames[i] = frames[--frame_count];
            return;
        }
    }
}

static bool is_branch(enum kind kind)
{
    return kind >= K_JCC && kind <= K_VMRUN;
}

/*
 * P was executed and the CPU then stood at pc: make the record if P has
 * branched there.
 */
static void flow(uint64_t pc)
{
    const struct step *p = &prev;

    if (!p->valid) {
        return;
    }
    switch (p->kind) {
    case K_NONE:
    case K_MOVCR3:
    case K_REP:
        if (is_next(p, pc)) {
            return;
        }
        if (pc == p->pc && p->kind == K_REP) {
            return;
        }
        if (!(p->flags & HF_PE)) {
            /* Only an NMI in real mode leaves no line in the log. */
            emit(next_of(p), pc, K_ASYNC, p->flags);
            return;
        }
        fail("went to %" PRIx64 " without a branch", pc);
    case K_JCC:
    case K_LOOP:
    case K_JCXZ:
        if (is_next(p, pc)) {
            if (p->target == pc) {
                if (!p->regs.valid) {
                    fail("cannot tell whether a branch to the next instruction "
                         "is taken: log with -d cpu");
                }
                if (is_taken(p)) {
                    emit(p->pc, pc, p->kind, p->flags);
                }
            }
            return;
        }
        if (pc != p->target) {
            fail("a conditional branch to %" PRIx64 " went to %" PRIx64,
                 p->target, pc);
        }
        break;
    case K_INTO:
        if (is_next(p, pc)) {
            return;
        }
        break;
    case K_JMP:
    case K_CALL:
        if (pc != p->target) {
            fail("a branch to %" PRIx64 " went to %" PRIx64, p->target, pc);
        }
        break;
    case K_VMRUN:
        if (failed_vmrun) {
            if (!is_next(p, pc)) {
                fail("a VMRUN that failed went to %" PRIx64, pc);
            }
            return;
        }
        break;
    case K_INT:
    case K_INT3:
    case K_ICEBP:
        if (p->flags & HF_PE) {
            fail("an interrupt to %" PRIx64 " that the log does not show", pc);
        }
        break;
    default:
        break;
    }
    emit(p->pc, pc, p->kind, p->flags);
    if (p->kind == K_IRET && frame_count && p->regs.valid) {
        resolve_frame(p->regs.ss_base + (p->regs.sp & 0xffff), pc);
    }
}

/*
 * P was executed: what comes now is in the address space that it has loaded.
 * The log only tells which one while paging is on.
 */
static void flowed(void)
{
    if (!prev.valid || failed_vmrun) {
        return;
    }
    if (prev.loads_cr3) {
        begin_span(true, prev.new_cr3);
    } else if (prev.kind == K_MOVCR3 || prev.kind == K_RSM ||
               prev.kind == K_VMRUN) {
        begin_span(false, 0);
    }
}

/* Does this interruption come after P, whatever its address? */
static bool is_asynchronous(const struct interruption *it)
{
    switch (it->kind) {
    case K_HARDWARE:
    case K_ASYNC:
    case K_SMI:
    case K_INJECTED:
        return true;
    case K_VMEXIT:
        return (it->vector >= SVM_EXIT_INTR && it->vector <= SVM_EXIT_VINTR) ||
               it->vector == SVM_EXIT_EXCP_DB;
    default:
        return false;
    }
}

/*
 * Where the CPU stood when something interrupted it in real mode, whose log
 * line gives no address.  Returns false if only the stack knows.
 */
static bool real_mode_from(const struct interruption *it, uint64_t *from)
{
    const struct step *p = &prev;

    if (have_hint) {
        *from = hint;
        return true;
    }
    if (!p->valid) {
        fail("interrupted before the first instruction");
    }
    if (it->kind == K_EXCEPTION && it->vector != VEC_DB) {
        if (p->code->insns > 1) {
            fail("cannot tell which instruction of a block has faulted: log "
                 "with one-insn-per-tb=on");
        }
        *from = p->pc;
        return true;
    }
    switch (p->kind) {
    case K_NONE:
    case K_MOVCR3:
        *from = next_of(p);
        return true;
    case K_JCC:
    case K_LOOP:
    case K_JCXZ:
        if (!p->regs.valid) {
            return false;
        }
        *from = is_taken(p) ? p->target : next_of(p);
        return true;
    case K_JMP:
    case K_CALL:
        *from = p->target;
        return true;
    default:
        return false;
    }
}

/* Flags of the mode that it interrupted: an injected event, the guest's. */
static uint32_t flags_of(const struct interruption *it, const struct step *n)
{
    return it->kind == K_INJECTED && n ? n->flags : prev.flags;
}

/* Go from P through all interruptions up to n; n is NULL after a reset. */
static void walk_chain(const struct step *n)
{
    struct interruption *it = &chain[0];
    bool completed;

    if (!it->have_from) {
        if (!real_mode_from(it, &it->from)) {
            struct pending_frame *f = &frames[frame_count];

            if (!n || !n->regs.valid || chain_len != 1 ||
                frame_count == sizeof(frames) / sizeof(frames[0])) {
                fail("only the stack knows where it was interrupted: log with "
                     "-d cpu");
            }
            frame_count++;      /* from here on nothing is written out */
            f->sp = n->regs.ss_base + (n->regs.sp & 0xffff);
            f->to_patch = prev.kind == K_REP ? -1 :
                          emit(prev.pc, 0, prev.kind, prev.flags);
            flowed();
            f->from_patch = emit(0, n->start, it->kind, flags_of(it, n));
            return;
        }
        it->have_from = true;
    }

    if (prev.valid && prev.code->insns > 1 && it->kind == K_EXCEPTION) {
        /* It may have come before the end of the block. */
        int index = insn_at(&prev, it->from);

        if (index >= 0) {
            insn_count -= prev.code->insns - 1 - index;
            set_last(&prev, index);
        }
    }
    if (it->kind == K_INT) {
        if (it->from != prev.pc) {
            fail("int n at %" PRIx64, it->from);
        }
        it->kind = prev.kind;   /* int n, int3 or into */
    } else if (it->kind == K_ICEBP) {
        it->from = prev.pc;     /* the log has what it pushes */
    } else {
        completed = true;
        if (it->from == prev.pc && prev.valid && !is_asynchronous(it)) {
            /* A fault; or a trap after a branch to itself. */
            completed = it->kind == K_EXCEPTION && it->vector == VEC_DB &&
                        is_branch(prev.kind);
        }
        if (completed) {
            flow(it->from);
            flowed();
        }
    }
    for (int i = 0; i < chain_len; i++) {
        it = &chain[i];
        if (!it->have_from) {
            fail("an interruption without an address");
        }
        if (it->have_cr3) {
            learn_cr3(it->cr3);
        }
        if (i + 1 < chain_len) {
            emit(it->from, chain[i + 1].from, it->kind, flags_of(it, n));
        } else if (n) {
            emit(it->from, n->start, it->kind, flags_of(it, n));
        }
        if (it->loads_cr3) {
            begin_span(true, it->new_cr3);
        } else if (it->exits) {
            begin_span(false, 0);
        }
    }
}

static void list_code(const struct step *s)
{
    struct code *c = s->code;
    enum mode mode = mode_of(s->flags);

    if (c->listed == mode + 1) {
        return;
    }
    c->listed = mode + 1;
    for (unsigned i = 0; i < c->insns; i++) {
        fprintf(out_insns, "%" PRIx64 " %s ", s->start + c->offset[i],
                mode_name[mode]);
        for (unsigned j = c->offset[i]; j < c->offset[i + 1]; j++) {
            fprintf(out_insns, "%02x", c->bytes[j]);
        }
        fputc('\n', out_insns);
    }
}

static void list_execution(const struct step *s)
{
    const struct executed e = {
        flushed + queue_len, s->start, s->code->len, !!(s->flags & HF_CS64),
    };

    fwrite(&e, sizeof(e), 1, out_code);
    fwrite(s->code->bytes, s->code->len, 1, out_code);
}

/*
 * Did the CPU leave the block before its end, to go on with the instruction
 * where it left in a block of its own?  It does for an instruction that does
 * I/O, writes to this very block, or hits a watchpoint.  Nothing of that
 * instruction had been done before.
 */
static bool left_early(const struct step *s, const struct step *n)
{
    int index = insn_at(s, n->start);

    if (!n->resumes || index < 0) {
        return false;
    }
    insn_count -= s->code->insns - index;
    resumed_count++;
    return true;
}

/* The block of the last Trace line has indeed been started. */
static void commit(void)
{
    if (!cand.valid) {
        return;
    }
    cand.valid = false;
    insn_count += cand.code->insns;
    set_last(&cand, cand.code->insns - 1);
    list_code(&cand);
    if (saw_exception || saw_hardware) {
        fail("internal: an interruption was not finished");
    }
    if (chain_len) {
        walk_chain(&cand);
    } else if (!prev.valid || !left_early(&prev, &cand)) {
        flow(cand.start);
        flowed();
    }
    if (cand.regs.valid) {
        learn_cr3(cand.regs.cr3);
    }
    chain_len = 0;
    failed_vmrun = false;
    have_hint = false;
    prev = cand;
    prev.valid = true;
    list_execution(&prev);
}

static struct interruption *add_interruption(enum kind kind, unsigned vector)
{
    struct interruption *it;

    if (chain_len == CHAIN_MAX) {
        fail("more than %d interruptions in a row", CHAIN_MAX);
    }
    it = &chain[chain_len++];
    memset(it, 0, sizeof(*it));
    it->kind = kind;
    it->vector = vector;
    it->exits = kind == K_VMEXIT;
    interruption_count++;
    if (kind == K_EXCEPTION) {
        vectors[vector & 0xff]++;
    }
    return it;
}

/*
 * A fault while another is delivered has the address of the first; only the
 * first counts.
 */
static void merge_last(void)
{
    if (chain_len >= 2 && chain[chain_len - 1].have_from &&
        chain[chain_len - 2].have_from &&
        chain[chain_len - 1].from == chain[chain_len - 2].from &&
        !chain[chain_len - 2].exits) {
        chain[chain_len - 2].exits = chain[chain_len - 1].exits;
        chain[chain_len - 2].loads_cr3 = false;
        chain_len--;
    }
}

/* An exception or interrupt in real mode has no line with its address. */
static void finish_real_mode(void)
{
    struct interruption *it = NULL;

    if (saw_exception) {
        it = add_interruption(K_EXCEPTION, exception_vector);
    } else if (saw_hardware) {
        it = add_interruption(K_HARDWARE, 0);
    } else if (saw_injection) {
        it = add_interruption(K_INJECTED, 0);
    }
    saw_exception = saw_hardware = saw_injection = false;
    if (it && chain_len > 1) {
        /* Nested: same address as the one whose delivery failed. */
        if (it[-1].have_from) {
            it->have_from = true;
            it->from = it[-1].from;
            merge_last();
        } else {
            chain_len--;
        }
    }
}

/* Parsing. */

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

static uint64_t field(const char *line, const char *name)
{
    const char *s = strstr(line, name);

    if (!s) {
        fail("no %s in: %s", name, line);
    }
    s += strlen(name);
    return hex(&s);
}

static bool starts(const char *line, const char *prefix)
{
    return !strncmp(line, prefix, strlen(prefix));
}

static void expect_char(const char **s, char c)
{
    if (**s != c) {
        fail("a Trace line that cannot be read");
    }
    (*s)++;
}

/* Trace 0: 0xHOST [CS_BASE/PC/FLAGS/CFLAGS] symbol */
static void on_trace(const char *line)
{
    const char *s = line;
    struct slot *slot;
    struct code *code;
    uint64_t host;
    unsigned cflags;

    commit();
    finish_real_mode();
    if (!starts(s, "Trace 0: 0x")) {
        fail("not one vCPU: %s", line);
    }
    s += strlen("Trace 0: 0x");
    host = hex(&s);
    expect_char(&s, ' ');
    expect_char(&s, '[');
    cand.cs_base = hex(&s);
    expect_char(&s, '/');
    cand.start = hex(&s);
    expect_char(&s, '/');
    cand.flags = hex(&s);
    expect_char(&s, '/');
    if (!(cand.flags & HF_CS64)) {
        cand.start &= 0xffffffff;   /* the log adds in 64 bits */
    }
    cflags = hex(&s);
    cand.max_insns = cflags & CF_COUNT_MASK;
    cand.resumes = cflags & CF_NOIRQ;
    cand.regs.valid = false;
    cand.loads_cr3 = false;

    slot = get_slot(host);
    if (fresh_len) {
        table_used += !slot->host;
        slot->host = host;
        code = split(fresh, fresh_len, cand.flags, cand.max_insns);
        code->before = slot->code;
        slot->code = code;
        fresh_len = 0;
    } else if (!slot->host) {
        fail("no bytes are known for the code at 0x%" PRIx64, host);
    }
    cand.code = slot->code;
    cand.valid = true;
    dump_to = &cand.regs;
}

static void on_code(const char *line)
{
    const char *s = line + strlen("OBJD-T: ");

    while (*s) {
        char pair[3] = { s[0], s[1], 0 };
        const char *p = pair;

        if (fresh_len == CODE_MAX) {
            fail("a block of more than %d bytes", CODE_MAX);
        }
        fresh[fresh_len++] = hex(&p);
        if (p != pair + 2) {
            fail("bad code bytes: %s", line);
        }
        s += 2;
    }
}

/* N: v=VV e=EEEE i=I cpl=C IP=SEL:IP pc=PC SP=... */
static void on_interrupt(const char *line)
{
    unsigned vector = field(line, ": v=");
    bool is_int = field(line, " i=");
    enum kind kind;

    commit();
    if (saw_injection) {
        kind = K_INJECTED;
    } else if (is_int) {
        kind = K_INT;
    } else if (saw_exception) {
        kind = K_EXCEPTION;
        if (vector != exception_vector && vector != 8) {
            fail("exception %u became %u", exception_vector, vector);
        }
    } else if (saw_hardware) {
        kind = K_HARDWARE;
    } else if (vector == VEC_DB && prev.kind == K_ICEBP && !chain_len) {
        kind = K_ICEBP;
    } else {
        kind = K_ASYNC;
    }
    saw_exception = saw_hardware = saw_injection = false;
    add_interruption(kind, vector);
    dump_regs.valid = false;
    dump_to = &dump_regs;
}

static void on_smi(void)
{
    commit();
    finish_real_mode();
    add_interruption(K_SMI, 0);
    dump_regs.valid = false;
    dump_to = &dump_regs;
}

/* vmexit(CODE, INFO1, INFO2, IP)! */
static void on_vmexit(const char *line)
{
    const char *s = line + strlen("vmexit(");
    unsigned code = hex(&s);
    struct interruption *it;
    uint64_t base = 0;

    commit();
    if (code == SVM_EXIT_ERR && prev.kind == K_VMRUN && !chain_len) {
        failed_vmrun = true;
        saw_exception = saw_hardware = saw_injection = false;
        return;
    }
    if (code == SVM_EXIT_SHUTDOWN) {
        saw_exception = false;
    }
    finish_real_mode();
    saw_injection = false;
    s = strrchr(line, ' ');
    if (!s) {
        fail("a vmexit line that cannot be read: %s", line);
    }
    s++;
    if (chain_len) {
        base = chain[chain_len - 1].base;
    } else if ((prev.flags & HF_GUEST) && !(prev.flags & HF_CS64)) {
        base = prev.cs_base;
    }
    it = add_interruption(K_VMEXIT, code);
    it->from = hex(&s) + base;
    it->have_from = true;
    merge_last();
}

static void on_reset(void)
{
    commit();
    saw_exception = saw_hardware = saw_injection = false;
    if (chain_len) {
        walk_chain(NULL);
        chain_len = 0;
    }
    have_hint = false;
    prev.valid = false;
    if (frame_count) {
        fail("a reset in an interrupt handler whose return address is not "
             "known");
    }
    begin_span(true, 0);
    fprintf(out_resets, "%" PRIu64 "\n", flushed + queue_len);
    dump_to = NULL;
}

/* CR3 is loaded by what was logged last. */
static void on_cr3(uint64_t cr3)
{
    commit();
    if (chain_len) {
        chain[chain_len - 1].loads_cr3 = true;
        chain[chain_len - 1].new_cr3 = cr3;
    } else {
        prev.loads_cr3 = true;
        prev.new_cr3 = cr3;
    }
}

/* The lines of a register dump, and what belongs to it. */
static void on_dump_line(const char *line)
{
    struct regs *r = dump_to;

    if (!r) {
        return;
    }
    if (starts(line, "RAX=") || starts(line, "EAX=")) {
        memset(r, 0, sizeof(*r));
        r->is64 = line[0] == 'R';
        r->cx = field(line, r->is64 ? "RCX=" : "ECX=");
    } else if (starts(line, "RSI=") || starts(line, "ESI=")) {
        r->sp = field(line, r->is64 ? "RSP=" : "ESP=");
    } else if (starts(line, "RIP=") || starts(line, "EIP=")) {
        r->ip = field(line, r->is64 ? "RIP=" : "EIP=");
        r->flags = field(line, r->is64 ? "RFL=" : "EFL=");
    } else if (starts(line, "CS =")) {
        const char *s = line + strlen("CS =0000 ");

        r->cs_base = hex(&s);
    } else if (starts(line, "SS =")) {
        const char *s = line + strlen("SS =0000 ");

        r->ss_base = hex(&s);
    } else if (starts(line, "CR0=")) {
        r->cr3 = field(line, "CR3=");
        r->valid = true;
        dump_to = NULL;
        if (r == &dump_regs && !chain_len && prev.kind == K_RSM) {
            prev.loads_cr3 = true;
            prev.new_cr3 = r->cr3;
        } else if (r == &dump_regs && chain_len &&
                   !chain[chain_len - 1].have_from) {
            struct interruption *it = &chain[chain_len - 1];

            it->base = r->is64 ? 0 : r->cs_base;
            it->from = r->is64 ? r->ip : (r->cs_base + r->ip) & 0xffffffff;
            it->have_from = true;
            it->have_cr3 = true;
            it->cr3 = r->cr3;
            merge_last();
        }
    }
}

static void on_line(const char *line)
{
    static const char *const types[] = { "INTR", "NMI", "EXEPT", "SOFT" };

    if (starts(line, "Injecting(")) {
        /* Not ended by a newline if the event is delivered at once. */
        commit();
        line = strstr(line, ": ");
        if (!line) {
            fail("an Injecting line that cannot be read");
        }
        line += 2;
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            if (starts(line, types[i])) {
                line += strlen(types[i]);
                break;
            }
        }
        saw_injection = true;
    }
    switch (line[0]) {
    case 'T':
        if (starts(line, "Trace ")) {
            on_trace(line);
        } else if (starts(line, "Triple fault")) {
            saw_exception = false;
        }
        break;
    case 'O':
        if (starts(line, "OBJD-T: ")) {
            on_code(line);
        }
        break;
    case 'S':
        if (starts(line, "Stopped execution of TB chain before ")) {
            if (!cand.valid) {
                fail("stopped before an instruction that was not started");
            }
            cand.valid = false;
            have_hint = true;
            hint = cand.start;
        } else if (starts(line, "Servicing hardware INT=") ||
                   starts(line, "Servicing virtual hardware INT=")) {
            commit();
            finish_real_mode();
            saw_hardware = true;
        } else if (starts(line, "SMM: enter")) {
            on_smi();
        } else if (starts(line, "SMM: after RSM")) {
            commit();
            dump_regs.valid = false;
            dump_to = &dump_regs;
        } else {
            on_dump_line(line);
        }
        break;
    case 'c':
        if (starts(line, "check_exception old: ")) {
            commit();
            finish_real_mode();
            saw_exception = true;
            exception_vector = field(line, " new 0x");
        }
        break;
    case 'v':
        if (starts(line, "vmrun! ")) {
            commit();
        } else if (starts(line, "vmexit(")) {
            on_vmexit(line);
        }
        break;
    case 'C':
        if (starts(line, "CPU Reset (CPU 0)")) {
            on_reset();
        } else if (starts(line, "CR3 update: ")) {
            on_cr3(field(line, "CR3="));
        } else {
            on_dump_line(line);
        }
        break;
    case 'I':
        if (starts(line, "IN: ")) {
            fresh_len = 0;
        }
        break;
    case 'u':
        if (starts(line, "unable to read memory")) {
            fail("QEMU could not read the bytes of an instruction");
        }
        break;
    case 'R':
    case 'E':
        on_dump_line(line);
        break;
    default:
        if ((line[0] == ' ' || (line[0] >= '0' && line[0] <= '9')) &&
            strstr(line, ": v=")) {
            on_interrupt(line);
        }
        break;
    }
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

static void close_output(FILE *f)
{
    if (ferror(f) || fclose(f)) {
        fail("cannot write: %s", strerror(errno));
    }
}

static void read_log(void)
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
            fail("cannot read the log: %s", strerror(errno));
        }
        if (n == 0) {
            break;      /* what has no newline was cut off */
        }
        have += n;
        end = buf + have;
        while ((nl = memchr(p, '\n', end - p))) {
            *nl = 0;
            line_no++;
            on_line(p);
            p = nl + 1;
        }
        have = end - p;
        if (have == sizeof(buf)) {
            fail("a line of more than %zu bytes", sizeof(buf));
        }
        memmove(buf, p, have);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: derive PREFIX <log\n");
        return 2;
    }
    out_records = open_output(argv[1], "records");
    out_spans = open_output(argv[1], "spans");
    out_resets = open_output(argv[1], "resets");
    out_insns = open_output(argv[1], "insns");
    out_code = open_output(argv[1], "code");

    read_log();
    commit();
    if (frame_count) {
        fail("%d interrupted addresses are still unknown", frame_count);
    }
    flush_queue();
    end_span();
    close_output(out_records);
    close_output(out_spans);
    close_output(out_resets);
    close_output(out_insns);
    close_output(out_code);

    if (!insn_count) {
        fail("no instruction in the log");
    }
    printf("instructions %" PRIu64 "\n", insn_count);
    printf("records %" PRIu64 "\n", flushed);
    printf("interruptions %" PRIu64 "\n", interruption_count);
    printf("resumed %" PRIu64 "\n", resumed_count);
    for (int k = 0; k < K_MAX; k++) {
        for (int m = 0; m < M_MAX; m++) {
            if (count[k][m]) {
                printf("kind %s/%s %" PRIu64 "\n", kind_name[k], mode_name[m],
                       count[k][m]);
            }
        }
    }
    for (int v = 0; v < 256; v++) {
        if (vectors[v]) {
            printf("vector %d %" PRIu64 "\n", v, vectors[v]);
        }
    }
    return 0;
}
