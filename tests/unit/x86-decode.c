/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/x86-decode.h: instructions that are newer than Zydis
 */
#include <glib.h>
#include <string.h>

#include "pt-samples.h"
#include "symbolize/x86-decode.h"

/* As GNU as 2.47 encodes them, and objdump prints them */
static const struct {
    const char *hex, *text;
    ZydisMnemonic mnemonic;         /* if it branches */
} samples[] = {
        { "f30f01ca", "eretu", ZYDIS_MNEMONIC_IRETQ },
        { "f20f01ca", "erets", ZYDIS_MNEMONIC_IRETQ },
        { "f20f00f0", "lkgs %eax" },
        { "f2410f00f1", "lkgs %r9d" },
        { "f20f007708", "lkgs 0x8(%rdi)" },
        { "f2420f00b48845230100", "lkgs 0x12345(%rax,%r9,4)" },
        { "f20f003500000000", "lkgs 0x0(%rip)" },
        { "0f01c6", "wrmsrns" },
        { "f20f01c6", "rdmsrlist" },
        { "f30f01c6", "wrmsrlist" },
        { "0f01c7", "pbndkb" },
        { "f2450f38f8e0", "urdmsr %r12,%r8" },
        { "f3450f38f8e0", "uwrmsr %r8,%r12" },
        { "c4c77bf8c01b000000", "urdmsr $0x1b,%r8" },
        { "c4c77af8c01b000000", "uwrmsr %r8,$0x1b" },
        { "0f38fc07", "aadd %eax,(%rdi)" },
        { "66480f38fc440f08", "aand %rax,0x8(%rdi,%rcx,1)" },
        { "f2410f38fc01", "aor %eax,(%r9)" },
        { "f30f38fc8700100000", "axor %eax,0x1000(%rdi)" },
        { "c4e279e60f", "cmpbexadd %eax,%ecx,(%rdi)" },
        { "c482f9ef4c0804", "cmpgxadd %rax,%rcx,0x4(%r8,%r9,1)" },
        { "0f388b08", "movrs (%rax),%ecx" },
        { "0f388a4804", "movrs 0x4(%rax),%cl" },
        { "62fcfc088b08", "movrs (%r16),%rcx" },
        { "0f1820", "prefetchrst2 (%rax)" },
        { "d500a18877665544332211",
          "jmpabs $0x1122334455667788", ZYDIS_MNEMONIC_JMP },
        { "d54801c0", "add %r16,%rax" },
        { "d5330104f7", "add %eax,(%r31,%r30,8)" },
        { "d518bc8877665544332211", "movabs $0x1122334455667788,%r20" },
        { "d510bc78563412", "mov $0x12345678,%r20d" },
        { "66d510bc3412", "mov $0x1234,%r20w" },
        { "d510c6430305", "movb $0x5,0x3(%r19)" },
        { "d510c7834523010005000000", "movl $0x5,0x12345(%r19)" },
        { "d5788d5c1105", "lea 0x5(%r17,%r18,1),%r19" },
        { "d598afc9", "imul %r17,%rcx" },
        { "d5186bc903", "imul $0x3,%r17,%rcx" },
        { "d51869c945230100", "imul $0x12345,%r17,%rcx" },
        { "d510ffd0", "call *%r16", ZYDIS_MNEMONIC_CALL },
        { "d510ffe1", "jmp *%r17", ZYDIS_MNEMONIC_JMP },
        { "d510ff6008", "jmp *0x8(%r16)", ZYDIS_MNEMONIC_JMP },
        { "d51156", "push %r30" },
        { "d5115e", "pop %r30" },
        { "d50850", "pushp %rax" },
        { "d50858", "popp %rax" },
        { "d590b600", "movzbl (%r16),%eax" },
        { "d5d8bcc8", "bsf %r16,%r17" },
        { "d5d845c8", "cmovne %r16,%r17" },
        { "d59095c0", "setne %r16b" },
        { "d51890", "xchg %r16,%rax" },
        { "d510f7c078563412", "test $0x12345678,%r16d" },
        { "d510f6c001", "test $0x1,%r16b" },
        { "d518f7d0", "not %r16" },
        { "d518f7d8", "neg %r16" },
        { "d518c1e003", "shl $0x3,%r16" },
        { "d518d3e0", "shl %cl,%r16" },
        { "d598b100", "cmpxchg %rax,(%r16)" },
        { "f0d598c100", "lock xadd %rax,(%r16)" },
        { "62f47418fff0", "push2 %rax,%rcx" },
        { "62f4fc188fc1", "pop2p %rcx,%rax" },
        { "62d48410fff1", "push2p %r9,%r31" },
        { "62f4bc1801c8", "add %rcx,%rax,%r8" },
        { "62f43c1883c001", "add $0x1,%eax,%r8d" },
        { "62f4bc1881c045230100", "add $0x12345,%rax,%r8" },
        { "62f43d1881c03412", "add $0x1234,%ax,%r8w" },
        { "62f47418800001", "add $0x1,(%rax),%cl" },
        { "62f4fc0c01c1", "{nf} add %rax,%rcx" },
        { "62f4fc0c81e978563412", "{nf} sub $0x12345678,%rcx" },
        { "62f4fc0c69c845230100", "{nf} imul $0x12345,%rax,%rcx" },
        { "62f4fc0c6bc803", "{nf} imul $0x3,%rax,%rcx" },
        { "62f4fc0cc1e005", "{nf} shl $0x5,%rax" },
        { "62f4ec1824c104", "shld $0x4,%rax,%rcx,%rdx" },
        { "62f4ec18adc1", "shrd %cl,%rax,%rcx,%rdx" },
        { "62f4f418f7d0", "not %rax,%rcx" },
        { "62f4f418f75808", "neg 0x8(%rax),%rcx" },
        { "62f4c40439c1", "ccmpe {dfv=of} %rax,%rcx" },
        { "62f4840583f805", "ccmpne {dfv=} $0x5,%rax" },
        { "62f48c0281f878563412", "ccmpb {dfv=cf} $0x12345678,%rax" },
        { "62f4040c813834120000", "ccmpll {dfv=} $0x1234,(%rax)" },
        { "62f4050c81f83412", "ccmpl {dfv=} $0x1234,%ax" },
        { "62f48405f7c078563412", "ctestne {dfv=} $0x12345678,%rax" },
        { "62f40402f6c001", "ctestb {dfv=} $0x1,%al" },
        { "62f4040c8501", "ctestl {dfv=} %eax,(%rcx)" },
        { "62f4fc0c4501", "cfcmovne %rax,(%rcx)" },
        { "62f4ec1845c8", "cmovne %rax,%rcx,%rdx" },
        { "62f47f1845c0", "setzune %al" },
        { "62f4fc0c88c8", "{nf} popcnt %rax,%rcx" },
        { "62fcfc0cf5c8", "{nf} lzcnt %r16,%rcx" },
        { "62e4fc086101", "movbe %r16,(%rcx)" },
        { "62fc7c08f008", "crc32b (%r16),%ecx" },
        { "62f4ed1866c8", "adcx %rax,%rcx,%rdx" },
        { "62fc7d08f800", "movdir64b (%r16),%rax" },
        { "62fc7f08f800", "enqcmd (%r16),%rax" },
        { "62fc7e08f200", "invpcid (%r16),%rax" },
        { "62f9fc089008", "kmovq (%r16),%k1" },
        { "62faf408f2d0", "andn %r16,%rcx,%rdx" },
        { "62f2fc00f7d1", "bextr %r16,%rcx,%rdx" },
        { "62fbff08f0d005", "rorx $0x5,%r16,%rdx" },
        { "62fa7c084900", "ldtilecfg (%r16)" },
        { "62fa7f084b0c00", "tileloadd (%r16,%rax,1),%tmm1" },
        { "0f3acc0802", "sha1rnds4 $0x2,(%rax),%xmm1" },
        { "c4e268dad9", "vsm3msg1 %xmm1,%xmm2,%xmm3" },
        { "c4e26edad9", "vsm4key4 %ymm1,%ymm2,%ymm3" },
        { "c4e26fcbd9", "vsha512rnds2 %xmm1,%ymm2,%ymm3" },
        { "c4e26f5018", "vpdpbssd (%rax),%ymm2,%ymm3" },
        { "62f36d4852d901", "vminmaxps $0x1,%zmm1,%zmm2,%zmm3" },
        { "62f26c487418", "vcvtbiasph2bf8 (%rax),%zmm2,%ymm3" },
        { "62f36e4842580103", "vmpsadbw $0x3,0x40(%rax),%zmm2,%zmm3" },
        { "62f57548589008000000", "vaddbf16 0x8(%rax),%zmm1,%zmm2" },
        { "62f1ff082fd1", "vcomxsd %xmm1,%xmm2" },
        { "62617d086e7801", "vmovd 0x4(%rax),%xmm31" },
        { "62f574485810", "vaddph (%rax),%zmm1,%zmm2" },
        { "c4e2735cda", "tdpfp16ps %tmm1,%tmm2,%tmm3" },
        { "62f37e4807d103", "tcvtrowd2ps $0x3,%tmm1,%zmm2" },
        { "c4e77af6c11b000000", "wrmsrns %rcx,$0x1b" },
        { "c4e77bf6c11b000000", "rdmsr $0x1b,%rcx" },
};

static bool branches(const ZydisDecodedInstruction *zi)
{
    switch (zi->mnemonic) {
    case ZYDIS_MNEMONIC_CALL:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_JMP:
    case ZYDIS_MNEMONIC_RET:
        return true;
    default:
        return zi->meta.category == ZYDIS_CATEGORY_COND_BR;
    }
}

/* Each has its length and kind; with each byte missing, it may be one. */
static void test_samples(void)
{
    ZydisDecoder d;
    unsigned newer = 0;

    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (unsigned i = 0; i < G_N_ELEMENTS(samples); i++) {
        g_autoptr(GByteArray) b = g_byte_array_new();
        ZydisDecodedInstruction zi;
        const char *text;
        unsigned n;

        pt_put(b, samples[i].hex);
        n = b->len;
        for (unsigned have = 1; have < n; have++) {
            /* A heap block of its own, so that a sanitizer sees what is read */
            g_autofree uint8_t *part = g_memdup2(b->data, have);

            g_assert_cmphex(x86_decode(&d, part, have, &zi, &text), ==,
                            ZYDIS_STATUS_NO_MORE_DATA);
        }
        for (unsigned filler = 0; filler < 256; filler += 0x33) {
            g_byte_array_set_size(b, n);
            while (b->len < 32) {
                g_byte_array_append(b, (uint8_t *)&filler, 1);
            }
            if (!ZYAN_SUCCESS(x86_decode(&d, b->data, b->len, &zi, &text)) ||
                zi.length != n) {
                g_error("%s: not decoded", samples[i].text);
            }
            if (samples[i].mnemonic) {
                g_assert_cmpint(zi.mnemonic, ==, samples[i].mnemonic);
            } else {
                g_assert_false(branches(&zi));
            }
        }
        if (text) {
            newer++;
            g_assert_true(!strcmp(text, "(unknown)") ||
                          g_str_has_prefix(samples[i].text, text));
        }
    }
    g_assert_cmpuint(newer, >, 60);
}

/* What REX2 cannot be before, and what has prefixes that it cannot have */
static void test_refused(void)
{
    static const char *const refused[] = {
        "d50070",                   /* jo */
        "d500e8",                   /* call */
        "d500eb",
        "d50048",                   /* another prefix */
        "d50066", "d500f3", "d5000f", "d500c5", "d500d5",
        "d500a3",                   /* mov to an address of 64 bits */
        "d58080",                   /* jo near */
        "d58031",                   /* rdtsc */
        "d58038",
        "d508a11122334455667788",   /* jmpabs with W */
        "66d500a11122334455667788",
        "48d51001c0",               /* REX before REX2 */
        "660f01ca",
        "f20f01c7", "660f01c6",
        "f30f00f0", "f20f00f8",
        "0f38f8c1", "f20f38fcc0", "0f38fd00",
        "62f40008d400",             /* in a draft only */
        "c4e0788000000000",         /* Xeon Phi's jkzd */
        "c5788410000000", "c5788510000000",
        "62f0000810c0",             /* no map */
        "66c4e278dac1",
        "06", "d6",
    };
    ZydisDecoder d;

    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (unsigned i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(GByteArray) b = g_byte_array_new();
        ZydisDecodedInstruction zi;
        ZyanStatus status;
        const char *text;

        pt_put(b, refused[i]);
        while (b->len < 24) {
            g_byte_array_append(b, (const uint8_t *)"", 1);
        }
        status = x86_decode(&d, b->data, b->len, &zi, &text);
        if (ZYAN_SUCCESS(status) || status == ZYDIS_STATUS_NO_MORE_DATA) {
            g_error("%s is decoded as %u bytes", refused[i], zi.length);
        }
    }
}

/* Outside of 64-bit mode the bytes are others: AAD, LES, BOUND ... */
static void test_modes(void)
{
    static const char *const bytes[] = { "d50a", "c4e7", "f30f01ca" };
    ZydisDecodedInstruction zi;
    const char *text;
    ZydisDecoder d;

    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
                     ZYDIS_STACK_WIDTH_32);
    for (unsigned i = 0; i < G_N_ELEMENTS(bytes); i++) {
        g_autoptr(GByteArray) b = g_byte_array_new();

        pt_put(b, bytes[i]);
        g_assert_cmphex(x86_decode_newer(&d, b->data, b->len, &zi, &text), ==,
                        ZYDIS_STATUS_DECODING_ERROR);
    }
    g_assert_true(ZYAN_SUCCESS(x86_decode(&d, "\xd5\x0a", 2, &zi, &text)));
    g_assert_cmpuint(zi.length, ==, 2);
    g_assert_null(text);
}

/*
 * Whatever Zydis knows in the formats VEX and EVEX has the length for it that
 * the rules for what it does not know give.
 */
static void test_zydis(void)
{
    g_autoptr(GRand) r = g_rand_new_with_seed(20261130);
    unsigned n = 0, vex = 0, evex = 0;
    ZydisDecoder d;

    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    while (n++ < 2000000) {
        static const uint8_t first[] = { 0x62, 0xc4, 0xc5 };
        uint8_t b[16];
        ZydisDecodedInstruction zi, newer;
        const char *text;

        for (unsigned i = 0; i < sizeof(b); i++) {
            b[i] = g_rand_int(r);
        }
        b[0] = first[n % 3];
        if (b[0] == 0x62) {
            /* Most others are not EVEX. */
            b[1] = (b[1] & 0xf0) | g_rand_int_range(r, 1, 4);
            b[2] |= 4;
        } else if (b[0] == 0xc4) {
            b[1] = (b[1] & 0xe0) | g_rand_int_range(r, 1, 4);
        }
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&d, NULL, b, sizeof(b),
                                                        &zi)) ||
            zi.meta.category == ZYDIS_CATEGORY_COND_BR /* of Xeon Phi */ ||
            zi.mnemonic == ZYDIS_MNEMONIC_VZEROUPPER ||
            zi.mnemonic == ZYDIS_MNEMONIC_VZEROALL) {
            continue;
        }
        g_assert_true(ZYAN_SUCCESS(x86_decode_newer(&d, b, sizeof(b), &newer,
                                                    &text)));
        g_assert_cmpuint(newer.length, ==, zi.length);
        if (b[0] == 0x62) {
            evex++;
        } else {
            vex++;
        }
    }
    g_assert_cmpuint(vex, >, 10000);
    g_assert_cmpuint(evex, >, 10000);
}

/* No more is read than there is, and no length is more than an instruction. */
static void test_hostile(void)
{
    static const uint8_t first[] = {
        0x0f, 0x62, 0xc4, 0xc5, 0xd5, 0x66, 0xf2, 0xf3, 0x48,
    };
    g_autoptr(GRand) r = g_rand_new_with_seed(1);
    ZydisDecoder d;

    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (unsigned i = 0; i < 300000; i++) {
        unsigned n = g_rand_int_range(r, 1, 20);
        g_autofree uint8_t *b = g_malloc(n);
        ZydisDecodedInstruction zi;
        const char *text;
        ZyanStatus status;

        for (unsigned j = 0; j < n; j++) {
            b[j] = g_rand_boolean(r) ? g_rand_int(r) :
                   first[g_rand_int_range(r, 0, sizeof(first))];
        }
        status = x86_decode(&d, b, n, &zi, &text);
        if (ZYAN_SUCCESS(status)) {
            g_assert_cmpuint(zi.length, >, 0);
            g_assert_cmpuint(zi.length, <=, MIN(n, 15));
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/x86-decode/samples", test_samples);
    g_test_add_func("/x86-decode/refused", test_refused);
    g_test_add_func("/x86-decode/modes", test_modes);
    g_test_add_func("/x86-decode/zydis", test_zydis);
    g_test_add_func("/x86-decode/hostile", test_hostile);
    return g_test_run();
}
