/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions of x86: their lengths, and what branches
 */

#include "insn.h"

const char *const kind_name[K_MAX] = {
    "none", "rep", "movcr", "jcc", "loop", "jcxz", "into", "jmp", "call",
    "jmp_ind", "call_ind", "ret", "far_jmp", "far_call", "far_ret", "iret",
    "int", "int3", "icebp", "syscall", "sysret", "sysenter", "sysexit",
    "rsm", "vmrun", "hardware", "nmi", "smi", "vmexit", "injected",
    "exception",
};

const char *const mode_name[M_MAX] = {
    "real", "vm86", "prot16", "prot32", "compat16", "compat32", "long",
};

enum mode mode_of(uint32_t flags)
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

/* An instruction that is being decoded */
struct decoder {
    const uint8_t *b, *end;     /* what is not decoded yet */
    bool is64, is32;
    bool p66, p67, rep, rex_w;
    unsigned addr_bits;
    unsigned z;                 /* bytes of an immediate of operand size */
    unsigned map;               /* of opcodes: 0, or that of 0F, 0F38, 0F3A */
    uint8_t op;
    bool modrm;
    unsigned imm;               /* bytes of immediates */
};

static struct decoder decode_prefixes(const uint8_t *b, const uint8_t *end,
                                      uint32_t flags)
{
    struct decoder in = {
        .b = b, .end = end, .is64 = flags & HF_CS64, .is32 = flags & HF_CS32,
    };

    for (; in.b < end; in.b++) {
        if (in.is64 && (*in.b & 0xf0) == 0x40) {
            in.rex_w = *in.b & 8;
            continue;
        }
        if (*in.b == 0x66) {
            in.p66 = true;
        } else if (*in.b == 0x67) {
            in.p67 = true;
        } else if (*in.b == 0xf2 || *in.b == 0xf3) {
            in.rep = true;
        } else if (*in.b != 0xf0 && *in.b != 0x26 && *in.b != 0x2e &&
                   *in.b != 0x36 && *in.b != 0x3e && *in.b != 0x64 &&
                   *in.b != 0x65) {
            break;
        }
        in.rex_w = false;       /* REX counts right before the opcode only. */
    }
    in.addr_bits = in.is64 ? (in.p67 ? 32 : 64) :
                   (in.is32 ? in.p67 : !in.p67) ? 16 : 32;
    in.z = in.is64 ? (in.p66 && !in.rex_w ? 2 : 4) :
           (in.is32 ? in.p66 : !in.p66) ? 2 : 4;
    return in;
}

/* What follows the opcode of an instruction of one byte */
static void one_byte_layout(struct decoder *in)
{
    switch (in->op) {
    case 0x00 ... 0x3f:
        in->modrm = (in->op & 7) < 4;
        in->imm = (in->op & 7) == 4 ? 1 : (in->op & 7) == 5 ? in->z : 0;
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
        in->modrm = true;
        break;
    case 0x69:
    case 0x81:
    case 0xc7:
        in->modrm = true;
        in->imm = in->z;
        break;
    case 0x6b:
    case 0x80:
    case 0x82:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        in->modrm = true;
        in->imm = 1;
        break;
    case 0x68:
    case 0xa9:
        in->imm = in->z;
        break;
    case 0xe8:
    case 0xe9:
        in->imm = in->is64 ? 4 : in->z;
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
        in->imm = 1;
        break;
    case 0x9a:
    case 0xea:
        in->imm = in->z + 2;
        break;
    case 0xa0 ... 0xa3:
        in->imm = in->addr_bits / 8;
        break;
    case 0xb8 ... 0xbf:
        in->imm = in->rex_w ? 8 : in->z;
        break;
    case 0xc2:
    case 0xca:
        in->imm = 2;
        break;
    case 0xc8:
        in->imm = 3;
        break;
    case 0xf6:
    case 0xf7:
        in->modrm = true;
        if (in->b < in->end && !(*in->b & 0x30)) {
            in->imm = in->op == 0xf6 ? 1 : in->z;   /* test */
        }
        break;
    }
}

/* What follows the opcode of an instruction of 0F; with VEX, ModRM is set. */
static void two_byte_immediate(struct decoder *in)
{
    switch (in->op) {
    case 0x0f:
    case 0x70 ... 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4 ... 0xc6:
        in->imm = 1;
        break;
    }
}

/* The same without VEX */
static void two_byte_layout(struct decoder *in)
{
    switch (in->op) {
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
        in->imm = in->is64 ? 4 : in->z;
        break;
    default:
        in->modrm = true;
        break;
    }
}

/* The opcode behind an escape byte; returns false if it is cut off. */
static bool escaped_opcode(struct decoder *in, uint8_t escape)
{
    if (escape != 0x0f) {
        /* VEX and EVEX: the map, then a classic opcode of that map */
        unsigned prefix = escape == 0xc5 ? 1 : escape == 0xc4 ? 2 : 3;

        if (in->end - in->b < (int)prefix + 2) {
            return false;
        }
        in->map = escape == 0xc5 ? 1 : *in->b & 7;
        in->b += prefix;
        in->op = *in->b++;
        in->modrm = !(in->map == 1 && in->op == 0x77);
        return true;
    }
    in->op = *in->b++;
    in->map = in->op == 0x38 ? 2 : in->op == 0x3a ? 3 : 1;
    if (in->map == 1) {
        two_byte_layout(in);
        return true;
    }
    if (in->b == in->end) {
        return false;
    }
    in->op = *in->b++;
    in->modrm = true;
    return true;
}

/*
 * Length of the instruction at b, 0 if it is cut off.  A block ends with an
 * instruction that cannot be decoded (see split), so this need not know
 * invalid instructions.
 */
unsigned insn_len(const uint8_t *b, const uint8_t *end, uint32_t flags)
{
    struct decoder in = decode_prefixes(b, end, flags);
    bool vex;

    if (end - in.b < 2) {
        return in.b < end ? in.b + 1 - b : 0;
    }
    in.op = *in.b++;
    vex = (in.op == 0xc4 || in.op == 0xc5 || in.op == 0x62) &&
          (in.is64 || *in.b >= 0xc0);
    if (vex || in.op == 0x0f) {
        if (!escaped_opcode(&in, in.op)) {
            return 0;
        }
        if (!vex && in.map == 1 && in.op >= 0x20 && in.op <= 0x23) {
            /* Moves from and to CRn and DRn ignore the mod field. */
            return in.b + 1 > end ? 0 : in.b + 1 - b;
        }
    }
    if (in.map == 0) {
        one_byte_layout(&in);
    } else if (in.map == 1) {
        two_byte_immediate(&in);
    } else if (in.map == 3) {
        in.imm = 1;
    }
    if (in.modrm) {
        unsigned len = modrm_len(in.b, end, in.addr_bits);

        if (!len) {
            return 0;
        }
        in.b += len;
    }
    return in.imm > end - in.b ? 0 : in.b + in.imm - b;
}

static enum kind one_byte_kind(uint8_t op, unsigned reg, bool rep)
{
    switch (op) {
    case 0x6c ... 0x6f:
    case 0xa4 ... 0xa7:
    case 0xaa ... 0xaf:
        return rep ? K_REP : K_NONE;
    case 0x70 ... 0x7f:
        return K_JCC;
    case 0x9a:
        return K_FAR_CALL;
    case 0xc2:
    case 0xc3:
        return K_RET;
    case 0xca:
    case 0xcb:
        return K_FAR_RET;
    case 0xcc:
        return K_INT3;
    case 0xcd:
        return K_INT;
    case 0xce:
        return K_INTO;
    case 0xcf:
        return K_IRET;
    case 0xe0 ... 0xe2:
        return K_LOOP;
    case 0xe3:
        return K_JCXZ;
    case 0xe8:
        return K_CALL;
    case 0xe9:
    case 0xeb:
        return K_JMP;
    case 0xea:
        return K_FAR_JMP;
    case 0xf1:
        return K_ICEBP;
    case 0xff:
        return reg == 2 ? K_CALL_IND : reg == 3 ? K_FAR_CALL :
               reg == 4 ? K_JMP_IND : reg == 5 ? K_FAR_JMP : K_NONE;
    default:
        return K_NONE;
    }
}

static enum kind two_byte_kind(uint8_t op, unsigned modrm)
{
    switch (op) {
    case 0x01:
        return modrm == 0xd8 ? K_VMRUN : K_NONE;
    case 0x05:
        return K_SYSCALL;
    case 0x07:
        return K_SYSRET;
    case 0x22:
        /* CR0, CR3 and CR4 say which address space it is. */
        switch (modrm >> 3 & 7) {
        case 0:
        case 3:
        case 4:
            return K_MOVCR;
        default:
            return K_NONE;
        }
    case 0x34:
        return K_SYSENTER;
    case 0x35:
        return K_SYSEXIT;
    case 0x80 ... 0x8f:
        return K_JCC;
    case 0xaa:
        return K_RSM;
    default:
        return K_NONE;
    }
}

/* Reads the displacement of a branch; returns false if it has another size. */
static bool read_displacement(const uint8_t *b, size_t bytes, int64_t *rel)
{
    switch (bytes) {
    case 1:
        *rel = (int8_t)b[0];
        return true;
    case 2:
        *rel = (int16_t)(b[0] | b[1] << 8);
        return true;
    case 4:
        *rel = (int32_t)(b[0] | b[1] << 8 | b[2] << 16 |
                         (uint32_t)b[3] << 24);
        return true;
    default:
        return false;
    }
}

bool insn_classify(struct insn *insn, uint32_t flags, uint64_t cs_base)
{
    const uint8_t *end = insn->bytes + insn->len;
    struct decoder in = decode_prefixes(insn->bytes, end, flags);
    uint64_t ip = insn->pc - (in.is64 ? 0 : cs_base);
    int64_t rel;

    insn->kind = K_NONE;
    insn->has_target = false;
    insn->opsize16 = !in.is64 && (in.is32 ? in.p66 : !in.p66);
    insn->addr_bits = in.addr_bits;
    if (in.b >= end) {
        return true;
    }
    in.op = *in.b++;
    if (in.op != 0x0f) {
        insn->kind = one_byte_kind(in.op, in.b < end ? *in.b >> 3 & 7 : 0,
                                   in.rep);
    } else if (in.b < end) {
        in.op = *in.b++;
        insn->kind = two_byte_kind(in.op, in.b < end ? *in.b : 0);
    }
    switch (insn->kind) {
    case K_JCC:
        insn->cond = in.op & 15;
        break;
    case K_LOOP:
        insn->cond = in.op & 3;
        break;
    case K_JCXZ:
    case K_JMP:
    case K_CALL:
        break;
    default:
        return true;
    }
    if (!read_displacement(in.b, end - in.b, &rel)) {
        return false;
    }
    ip += insn->len + rel;
    if (!in.is64) {
        ip = insn->opsize16 ? ip & 0xffff : ip & 0xffffffff;
        ip = (cs_base + ip) & 0xffffffff;
    }
    insn->target = ip;
    insn->has_target = true;
    return true;
}
