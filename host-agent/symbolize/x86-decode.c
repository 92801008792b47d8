/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One instruction, also if it is newer than Zydis: see x86-decode.h
 *
 * Sources: Intel SDM, vol. 2, ch. 2 (formats), and the entries of each; Intel
 * Architecture Instruction Set Extensions (319433); Intel APX Architecture
 * Specification (355828), sections 3.1.1 (REX2), 3.1.2 (EVEX), 3.1.3 (opcodes).
 */

#include <stdbool.h>
#include <string.h>

#include "symbolize/x86-decode.h"

#define REX2    0xd5
#define LONGEST ZYDIS_MAX_INSTRUCTION_LENGTH

/* Bytes of an instruction, from its first prefix on */
struct x86_bytes {
    const uint8_t *bytes;
    size_t n;
    size_t at;                  /* of what is next */
    bool operand;               /* has 66 */
    uint8_t repeat;             /* F3, F2, or 0 */
    uint8_t rex;                /* or 0 */
};

static bool is_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64 ... 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
        return true;
    default:
        return false;
    }
}

static void skip_prefixes(struct x86_bytes *x)
{
    while (x->at < x->n && is_prefix(x->bytes[x->at])) {
        uint8_t byte = x->bytes[x->at++];

        if (byte == 0x66) {
            x->operand = true;
        } else if (byte >= 0xf2) {
            x->repeat = byte;
        }
    }
    if (x->at < x->n && (x->bytes[x->at] & 0xf0) == 0x40) {
        x->rex = x->bytes[x->at++];
    }
}

/* From the ModRM byte to the end, after which there are @immediate bytes. */
static ZyanStatus end(const struct x86_bytes *x, size_t immediate,
                      ZydisDecodedInstruction *zi)
{
    size_t length = x->at + 1 + immediate;
    uint8_t mod, rm;

    if (x->at >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    mod = x->bytes[x->at] >> 6;
    rm = x->bytes[x->at] & 7;
    if (mod != 3) {
        if (rm == 4) {
            length++;
            if (x->at + 1 >= x->n) {
                return ZYDIS_STATUS_NO_MORE_DATA;
            }
            rm = x->bytes[x->at + 1] & 7;
        }
        length += mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0;
    }
    if (length > LONGEST) {
        return ZYDIS_STATUS_INSTRUCTION_TOO_LONG;
    }
    zi->length = length;
    return length > x->n ? ZYDIS_STATUS_NO_MORE_DATA : ZYAN_STATUS_SUCCESS;
}

/* 0F 00 and 0F 01: an opcode is what its ModRM byte and a prefix say. */
static ZyanStatus decode_system(struct x86_bytes *x, bool group7,
                                ZydisDecodedInstruction *zi,
                                const char **text)
{
    uint8_t modrm;

    if (x->at >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    modrm = x->bytes[x->at];
    if (x->operand) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    if (!group7) {
        if (x->repeat != 0xf2 || (modrm >> 3 & 7) != 6) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        *text = "lkgs";
        return end(x, 0, zi);
    }
    if (modrm == 0xca && x->repeat) {
        zi->mnemonic = ZYDIS_MNEMONIC_IRETQ;
        *text = x->repeat == 0xf2 ? "erets" : "eretu";
    } else if (modrm == 0xc6) {
        *text = x->repeat == 0xf2 ? "rdmsrlist" :
                x->repeat ? "wrmsrlist" : "wrmsrns";
    } else if (modrm == 0xc7 && !x->repeat) {
        *text = "pbndkb";
    } else {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    return end(x, 0, zi);
}

/* 0F, 0F 38 */
static ZyanStatus decode_0f(struct x86_bytes *x, ZydisDecodedInstruction *zi,
                            const char **text)
{
    bool registers;

    if (x->at >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    zi->opcode_map = ZYDIS_OPCODE_MAP_0F;
    zi->opcode = x->bytes[x->at++];
    if (zi->opcode <= 1) {
        return decode_system(x, zi->opcode, zi, text);
    }
    if (zi->opcode != 0x38) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    if (x->at + 1 >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    zi->opcode_map = ZYDIS_OPCODE_MAP_0F38;
    zi->opcode = x->bytes[x->at++];
    registers = x->bytes[x->at] >= 0xc0;
    switch (zi->opcode) {
    case 0xf8:                  /* URDMSR, UWRMSR */
        if (!registers || !x->repeat || x->operand) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        break;
    case 0x8a ... 0x8b:         /* MOVRS */
    case 0xfc:                  /* AADD, AAND, AOR, AXOR */
        if (registers) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        break;
    default:
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    return end(x, 0, zi);
}

/*
 * How many bytes an immediate of the opcode has in the map of APX, where those
 * of the first maps are with EVEX; or -1
 */
static int promoted_immediate(uint8_t opcode, uint8_t modrm, bool operand)
{
    int large = operand ? 2 : 4;

    switch (opcode) {
    case 0x24:
    case 0x2c:
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
        return 1;
    case 0x69:
    case 0x81:
        return large;
    case 0xf6:
        return (modrm >> 3 & 7) < 2 ? 1 : 0;
    case 0xf7:
        return (modrm >> 3 & 7) < 2 ? large : 0;
    case 0xd4:
    case 0xd8 ... 0xdf:
        /* Of drafts of APX */
        return -1;
    default:
        return 0;
    }
}

/* VEX and EVEX: none of them branches. */
static ZyanStatus decode_vector(struct x86_bytes *x, unsigned map,
                                bool evex, bool operand,
                                ZydisDecodedInstruction *zi)
{
    int immediate = 0;

    if (x->rex || x->operand || x->repeat) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    if (x->at + 1 >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    zi->opcode = x->bytes[x->at++];
    switch (map) {
    case 1:
        switch (zi->opcode) {
        case 0x70 ... 0x73:
        case 0xc2:
        case 0xc4 ... 0xc6:
            immediate = 1;
            break;
        case 0x77:              /* There is no ModRM byte. */
        case 0x80 ... 0x8f:     /* conditional branches of Xeon Phi */
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        break;
    case 2:
    case 5:
    case 6:
        break;
    case 3:
        immediate = 1;
        break;
    case 4:
        immediate = evex ? promoted_immediate(zi->opcode, x->bytes[x->at],
                                              operand) : -1;
        break;
    case 7:                     /* URDMSR, UWRMSR, RDMSR, WRMSRNS */
        immediate = zi->opcode == 0xf6 || zi->opcode == 0xf8 ? 4 : -1;
        break;
    default:
        immediate = -1;
        break;
    }
    return immediate < 0 ? ZYDIS_STATUS_DECODING_ERROR :
                           end(x, immediate, zi);
}

static ZyanStatus decode_evex(struct x86_bytes *x, ZydisDecodedInstruction *zi)
{
    uint8_t p0, p1;

    if (x->at + 2 >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    p0 = x->bytes[x->at];
    p1 = x->bytes[x->at + 1];
    x->at += 3;
    /* 66 makes an operand 16 bits wide unless W makes it 64. */
    return decode_vector(x, p0 & 7, true, (p1 & 3) == 1 && !(p1 & 0x80), zi);
}

static ZyanStatus decode_vex(struct x86_bytes *x, bool short_form,
                             ZydisDecodedInstruction *zi)
{
    size_t payload = short_form ? 1 : 2;
    unsigned map;

    if (x->at + payload > x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    map = short_form ? 1 : x->bytes[x->at] & 31;
    x->at += payload;
    return decode_vector(x, map, false, false, zi);
}

/*
 * What comes after REX2 is an instruction as those with REX are, but for its
 * registers.
 */
static ZyanStatus decode_rex2(struct x86_bytes *x, const ZydisDecoder *decoder,
                              ZydisDecodedInstruction *zi, const char **text)
{
    uint8_t with_rex[LONGEST], payload, opcode;
    size_t n = 0, rest = x->at + 1;
    ZyanStatus status;
    bool map1;

    if (x->rex) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    if (x->at + 1 >= x->n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    payload = x->bytes[x->at];
    opcode = x->bytes[rest];
    map1 = payload & 0x80;
    if (!map1 && opcode == 0xa1) {
        if (x->operand || x->repeat || payload & 0x08) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        zi->mnemonic = ZYDIS_MNEMONIC_JMP;
        zi->opcode = opcode;
        zi->length = rest + 9;
        *text = "jmpabs";
        return zi->length > LONGEST ? ZYDIS_STATUS_INSTRUCTION_TOO_LONG :
               zi->length > x->n ? ZYDIS_STATUS_NO_MORE_DATA :
                                   ZYAN_STATUS_SUCCESS;
    }
    switch (opcode >> 4) {
    case 0x4:
    case 0x7:
    case 0xa:
    case 0xe:
        if (!map1) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        break;
    case 0x3:
    case 0x8:
        if (map1) {
            return ZYDIS_STATUS_DECODING_ERROR;
        }
        break;
    }
    if (!map1 && (is_prefix(opcode) || opcode == 0x0f || opcode == 0x62 ||
                  (opcode >= 0xc4 && opcode <= 0xc5) || opcode == REX2)) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    /* The prefixes, without REX2 */
    memcpy(with_rex, x->bytes, x->at - 1);
    n = x->at - 1;
    with_rex[n++] = 0x40 | (payload & 0x0f);
    if (map1) {
        with_rex[n++] = 0x0f;
    }
    for (size_t i = rest; i < x->n && n < LONGEST; i++) {
        with_rex[n++] = x->bytes[i];
    }
    status = ZydisDecoderDecodeInstruction(decoder, NULL, with_rex, n, zi);
    if (ZYAN_SUCCESS(status)) {
        zi->length += map1 ? 0 : 1;
        if (zi->length > LONGEST) {
            return ZYDIS_STATUS_INSTRUCTION_TOO_LONG;
        }
    }
    return status;
}

ZyanStatus x86_decode_newer(const ZydisDecoder *decoder, const void *bytes,
                            size_t n, ZydisDecodedInstruction *zi,
                            const char **text)
{
    struct x86_bytes x = { .bytes = bytes, .n = n < LONGEST ? n : LONGEST };

    memset(zi, 0, sizeof(*zi));
    *text = "(unknown)";
    if (decoder->machine_mode != ZYDIS_MACHINE_MODE_LONG_64) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    skip_prefixes(&x);
    if (x.at >= x.n) {
        return ZYDIS_STATUS_NO_MORE_DATA;
    }
    switch (x.bytes[x.at++]) {
    case 0x0f:
        return decode_0f(&x, zi, text);
    case 0x62:
        return decode_evex(&x, zi);
    case 0xc4:
        return decode_vex(&x, false, zi);
    case 0xc5:
        return decode_vex(&x, true, zi);
    case REX2:
        return decode_rex2(&x, decoder, zi, text);
    default:
        return ZYDIS_STATUS_DECODING_ERROR;
    }
}

/* Zydis knows branches of Knights Corner, which others refuse, whatever its mode
 * says. */
static bool is_of_xeon_phi(const ZydisDecodedInstruction *zi)
{
    return zi->meta.isa_ext == ZYDIS_ISA_EXT_KNC ||
           zi->meta.isa_ext == ZYDIS_ISA_EXT_KNCE ||
           zi->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

/* What comes after Zydis, which has returned @status */
static ZyanStatus decode_rest(const ZydisDecoder *decoder, const void *bytes,
                              size_t n, ZyanStatus status,
                              ZydisDecodedInstruction *zi, const char **text)
{
    *text = NULL;
    if (ZYAN_SUCCESS(status) && is_of_xeon_phi(zi)) {
        return ZYDIS_STATUS_DECODING_ERROR;
    }
    return ZYAN_SUCCESS(status) || status == ZYDIS_STATUS_NO_MORE_DATA ?
           status : x86_decode_newer(decoder, bytes, n, zi, text);
}

ZyanStatus x86_decode(const ZydisDecoder *decoder, const void *bytes, size_t n,
                      ZydisDecodedInstruction *zi, const char **text)
{
    ZyanStatus status = ZydisDecoderDecodeInstruction(decoder, NULL, bytes, n,
                                                      zi);

    return decode_rest(decoder, bytes, n, status, zi, text);
}

ZyanStatus x86_decode_full(const ZydisDecoder *decoder, const void *bytes,
                           size_t n, ZydisDecodedInstruction *zi,
                           ZydisDecodedOperand *operands, const char **text)
{
    ZyanStatus status = ZydisDecoderDecodeFull(decoder, bytes, n, zi, operands);

    return decode_rest(decoder, bytes, n, status, zi, text);
}
