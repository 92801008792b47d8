/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a CPU writes of Intel PT while a guest runs: see scripts/pt-probe
 *
 *   probe record TYPE CONFIG THREAD MS SIZE FILE [FILTER]
 *                      traces a thread, in a ring that is overwritten, and
 *                      writes the ring into FILE, which only this user can read
 *   probe scan FILE    says what is in a ring
 *   probe returns TYPE CONFIG
 *                      traces itself, with returns that go elsewhere
 *   probe rounds       makes these without a trace
 *
 * A program alone, to be linked statically: it shares nothing with others.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SEQUENCES   64
#define WORDS       160

/* Packets that were there, in the order in which they are printed */
enum packet {
    PAD, TNT6, TNT47, TIP, PGE, PGD, FUP, PSB, PSBEND, PIP, MODE, TSC, TMA, MTC,
    CYC, CBR, VMCS, OVF, TRACESTOP, MNT, PTW, EXSTOP, MWAIT, PWRE, PWRX, CFE,
    EVD, UNKNOWN, PACKETS, CUT,
};

static const char *const names[PACKETS] = {
    "pad", "tnt6", "tnt47", "tip", "tip.pge", "tip.pgd", "fup", "psb",
    "psbend", "pip", "mode", "tsc", "tma", "mtc", "cyc", "cbr", "vmcs", "ovf",
    "tracestop", "mnt", "ptw", "exstop", "mwait", "pwre", "pwrx", "cfe",
    "evd", "unknown",
};

static const uint8_t psb[16] = {
    2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
};

/* How often packets came in some order */
struct sequences {
    struct {
        char words[WORDS];
        uint64_t n;
    } known[SEQUENCES];
    uint64_t others;
};

struct scan {
    uint64_t n[PACKETS];
    uint64_t bytes[3];          /* of the host, of a guest, not known */
    uint64_t branches[3];       /* TNT bits and TIPs */
    uint64_t exits, entries;
    uint64_t pge_with_psb, pge_without;
    uint64_t skipped;           /* bytes that are no packets, up to a PSB */
    struct sequences at_exit, at_entry, after_ovf, after_pgd;
    unsigned who;
    bool in_psb, psb_since_pgd, off, entering;
    char words[WORDS];          /* since the last TIP, FUP or TNT */
    char ovf[WORDS], pgd[WORDS];
    bool in_ovf, in_pgd;
};

static int die(const char *what)
{
    fprintf(stderr, "pt-probe: %s: %s\n", what, strerror(errno));
    return 1;
}

static unsigned two(const uint8_t *p, size_t n, enum packet *what)
{
    static const struct {
        uint8_t code, size;
        enum packet packet;
    } known[] = {
        { 0x23, 2, PSBEND }, { 0x43, 8, PIP }, { 0x73, 7, TMA },
        { 0x03, 4, CBR }, { 0xc8, 7, VMCS }, { 0xf3, 2, OVF },
        { 0x83, 2, TRACESTOP }, { 0xa3, 8, TNT47 }, { 0x62, 2, EXSTOP },
        { 0xe2, 2, EXSTOP }, { 0xc2, 10, MWAIT }, { 0x22, 4, PWRE },
        { 0xa2, 7, PWRX }, { 0x13, 4, CFE }, { 0x53, 11, EVD },
    };

    if (n >= sizeof(psb) && !memcmp(p, psb, sizeof(psb))) {
        *what = PSB;
        return sizeof(psb);
    }
    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (p[1] == known[i].code) {
            *what = known[i].packet;
            return known[i].size;
        }
    }
    if ((p[1] & 0x1f) == 0x12 && (p[1] & 0x60) < 0x40) {
        *what = PTW;
        return p[1] & 0x20 ? 10 : 6;
    }
    if (p[1] == 0xc3 && n > 2 && p[2] == 0x88) {
        *what = MNT;
        return 11;
    }
    return 0;
}

/* The size of the packet at @p; 0 if it is none */
static unsigned get(const uint8_t *p, size_t n, enum packet *what)
{
    static const uint8_t ip[8] = { 0, 2, 4, 6, 6, 0, 8, 0 };
    unsigned size = 0;

    *what = UNKNOWN;
    if (p[0] == 0) {
        *what = PAD;
        return 1;
    }
    if (p[0] == 2) {
        if (n < 2) {
            *what = CUT;
            return 0;
        }
        size = two(p, n, what);
    } else if (!(p[0] & 1)) {
        *what = TNT6;
        size = 1;
    } else if ((p[0] & 3) == 3) {
        *what = CYC;
        size = 1;
        if (p[0] & 4) {
            while (size < n && p[size] & 1) {
                size++;
            }
            size++;
        }
    } else if (p[0] == 0x99) {
        *what = MODE;
        size = 2;
    } else if (p[0] == 0x19) {
        *what = TSC;
        size = 8;
    } else if (p[0] == 0x59) {
        *what = MTC;
        size = 2;
    } else {
        switch (p[0] & 0x1f) {
        case 0x0d:
            *what = TIP;
            break;
        case 0x11:
            *what = PGE;
            break;
        case 0x01:
            *what = PGD;
            break;
        case 0x1d:
            *what = FUP;
            break;
        default:
            return 0;
        }
        size = p[0] >> 5 == 5 || p[0] >> 5 == 7 ? 0 : 1 + ip[p[0] >> 5];
    }
    if (size > n) {
        *what = CUT;
        return 0;
    }
    return size;
}

static void count(struct sequences *s, const char *words)
{
    for (unsigned i = 0; i < SEQUENCES; i++) {
        if (!s->known[i].n) {
            snprintf(s->known[i].words, WORDS, "%s", words);
        } else if (strcmp(s->known[i].words, words)) {
            continue;
        }
        s->known[i].n++;
        return;
    }
    s->others++;
}

static void add(char *words, const char *word)
{
    size_t n = strlen(words);

    snprintf(words + n, WORDS - n, "%s%s", n ? "," : "", word);
}

static unsigned tnt_bits(const uint8_t *p, enum packet what)
{
    uint64_t v = 0;

    if (what == TNT6) {
        v = p[0] >> 1;
    } else {
        memcpy(&v, p + 2, 6);
    }
    return v ? 63 - __builtin_clzll(v) : 0;
}

/* What comes behind the last TIP, TNT or FUP: how an exit or entry looks */
static void flow(struct scan *s, const uint8_t *p, enum packet what)
{
    static const char *const who[] = { "host", "guest", "unknown" };
    char word[32];
    unsigned to = s->who;

    switch (what) {
    case PIP:
        to = p[2] & 1;
        if (!s->in_psb && s->who < 2 && to != s->who) {
            s->exits += !to;
            s->entries += to;
            s->entering = to;
        }
        snprintf(word, sizeof(word), "pip=%s", who[to]);
        s->who = to;
        break;
    case MODE:
        snprintf(word, sizeof(word), "mode=%02x", p[1]);
        break;
    case FUP:
    case TIP:
    case PGE:
    case PGD:
        snprintf(word, sizeof(word), "%s%s", names[what],
                 p[0] >> 5 ? "" : "()");
        break;
    default:
        snprintf(word, sizeof(word), "%s", names[what]);
    }
    if (s->in_psb || what == PSB || what == PSBEND || what == MTC ||
        what == CYC || what == PAD || what == CBR) {
        return;
    }
    if (what == TNT6 || what == TNT47) {
        s->words[0] = 0;
        s->in_ovf = s->in_pgd = false;
        return;
    }
    add(s->words, word);
    if (s->in_ovf && what != OVF) {
        add(s->ovf, word);
    }
    if (s->in_pgd && what != PGD) {
        add(s->pgd, word);
    }
    if (what == OVF) {
        s->in_ovf = true;
        s->ovf[0] = 0;
    }
    if (what == PGD) {
        s->in_pgd = true;
        s->pgd[0] = 0;
    }
    if (what == FUP || what == TIP || what == PGE) {
        if (s->in_ovf) {
            count(&s->after_ovf, s->ovf);
        }
        if (s->in_pgd && what == PGE) {
            count(&s->after_pgd, s->pgd);
        }
        s->in_pgd = s->in_pgd && what != PGE;
        s->in_ovf = false;
    }
    if (what == TIP || what == PGE || what == PGD) {
        if (strstr(s->words, "pip=host")) {
            count(&s->at_exit, s->words);
        } else if (s->entering) {
            count(&s->at_entry, s->words);
        }
        s->words[0] = 0;
        s->entering = false;
    }
}

static void packet(struct scan *s, const uint8_t *p, unsigned size,
                   enum packet what)
{
    s->n[what]++;
    switch (what) {
    case PSB:
        s->in_psb = true;
        s->psb_since_pgd = true;
        break;
    case OVF:
    case PSBEND:
        s->in_psb = false;
        break;
    case TNT6:
    case TNT47:
        s->branches[s->who] += tnt_bits(p, what);
        break;
    case TIP:
        s->branches[s->who]++;
        break;
    case PGD:
        s->psb_since_pgd = false;
        s->off = true;
        break;
    case PGE:
        if (s->off) {
            s->pge_with_psb += s->psb_since_pgd;
            s->pge_without += !s->psb_since_pgd;
        }
        s->off = false;
        break;
    default:
        break;
    }
    flow(s, p, what);
    s->bytes[s->who] += size;
}

static void print_sequences(const char *name, const struct sequences *s)
{
    for (unsigned i = 0; i < SEQUENCES && s->known[i].n; i++) {
        printf("pt-probe: %s %" PRIu64 " %s\n", name, s->known[i].n,
               s->known[i].words);
    }
    if (s->others) {
        printf("pt-probe: %s %" PRIu64 " others\n", name, s->others);
    }
}

static void print(const struct scan *s, size_t size)
{
    static const char *const who[] = { "host", "guest", "unknown" };

    printf("pt-probe: bytes %zu\n", size);
    for (unsigned i = 0; i < PACKETS; i++) {
        if (s->n[i]) {
            printf("pt-probe: packets.%s %" PRIu64 "\n", names[i], s->n[i]);
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        printf("pt-probe: %s bytes %" PRIu64 " branches %" PRIu64 "\n", who[i],
               s->bytes[i], s->branches[i]);
    }
    printf("pt-probe: exits %" PRIu64 " entries %" PRIu64 "\n", s->exits,
           s->entries);
    printf("pt-probe: no-packets bytes %" PRIu64 "\n", s->skipped);
    printf("pt-probe: p8 pge-with-psb %" PRIu64 " pge-without-psb %" PRIu64
           "\n", s->pge_with_psb, s->pge_without);
    print_sequences("p2.exit", &s->at_exit);
    print_sequences("p2.entry", &s->at_entry);
    print_sequences("p3.after-ovf", &s->after_ovf);
    print_sequences("p8.after-pgd", &s->after_pgd);
}

static int scan(const char *path)
{
    static struct scan s = { .who = 2 };
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    const uint8_t *next;
    size_t size = 0, room = 0, at;

    if (!f) {
        return die(path);
    }
    do {
        room = room ? room * 2 : 1 << 20;
        bytes = realloc(bytes, room);
        if (!bytes) {
            return die("memory");
        }
        size += fread(bytes + size, 1, room - size, f);
    } while (size == room);
    fclose(f);
    next = memmem(bytes, size, psb, sizeof(psb));
    at = next ? (size_t)(next - bytes) : size;
    s.skipped = at;
    while (at < size) {
        enum packet what;
        unsigned n = get(bytes + at, size - at, &what);

        if (what == CUT) {
            s.skipped += size - at;
            break;
        }
        if (!n) {
            s.n[UNKNOWN]++;
            next = memmem(bytes + at, size - at, psb, sizeof(psb));
            s.skipped += (next ? next : bytes + size) - (bytes + at);
            at = next ? (size_t)(next - bytes) : size;
            continue;
        }
        packet(&s, bytes + at, n, what);
        at += n;
    }
    print(&s, size);
    free(bytes);
    return 0;
}

/* The ring from its oldest byte on, into a file of this user's alone */
static int write_ring(const uint8_t *ring, size_t size, uint64_t head,
                      const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t from = head % size;
    bool full = ring[from] || ring[(from + 1) % size] || head > size;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");

    if (!f) {
        return die(path);
    }
    if (full) {
        fwrite(ring + from, 1, size - from, f);
    }
    fwrite(ring, 1, from, f);
    return fclose(f) ? die(path) : 0;
}

struct ring {
    struct perf_event_mmap_page *base;
    uint8_t *bytes;             /* the oldest are overwritten */
    size_t size;
    int fd;
};

static int open_ring(struct ring *r, const char *type, const char *config,
                     int thread, size_t size, bool user)
{
    struct perf_event_attr attr = {
        .type = strtoul(type, NULL, 0), .size = sizeof(attr),
        .config = strtoull(config, NULL, 0), .disabled = 1, .exclude_hv = 1,
        .exclude_kernel = user,
    };
    size_t page = sysconf(_SC_PAGESIZE);

    if (size < page || size & (size - 1)) {
        errno = EINVAL;
        return die("size");
    }
    r->size = size;
    r->fd = syscall(SYS_perf_event_open, &attr, thread, -1, -1,
                    PERF_FLAG_FD_CLOEXEC);
    if (r->fd < 0) {
        return die("perf_event_open");
    }
    r->base = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
                   0);
    if (r->base == MAP_FAILED) {
        return die("mmap");
    }
    r->base->aux_offset = 2 * page;
    r->base->aux_size = size;
    /* Not writable: so it is a ring without an end. */
    r->bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, r->fd, 2 * page);
    return r->bytes == MAP_FAILED ? die("mmap of the ring") : 0;
}

static size_t written(const struct ring *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->size; i++) {
        n += r->bytes[i] != 0;
    }
    return n;
}

static int record(char **a, const char *filter)
{
    unsigned long ms = strtoul(a[3], NULL, 0);
    struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    struct ring r;
    size_t before;

    if (open_ring(&r, a[0], a[1], atoi(a[2]), strtoull(a[4], NULL, 0),
                  false)) {
        return 1;
    }
    if (filter && ioctl(r.fd, PERF_EVENT_IOC_SET_FILTER, filter)) {
        return die("filter");
    }
    if (ioctl(r.fd, PERF_EVENT_IOC_ENABLE, 0)) {
        return die("enable");
    }
    nanosleep(&pause, NULL);
    before = written(&r);
    if (ioctl(r.fd, PERF_EVENT_IOC_DISABLE, 0)) {
        return die("disable");
    }
    /* Can a ring be read while it is written? */
    printf("pt-probe: p9 bytes-before-stop %zu bytes-then %zu\n", before,
           written(&r));
    return write_ring(r.bytes, r.size,
                      __atomic_load_n(&r.base->aux_head, __ATOMIC_ACQUIRE),
                      a[5]);
}

#define ROUNDS      1000

/*
 * In each round two calls, and two returns: the first to where nothing has
 * called, the second to behind the first call.  If a CPU takes an address off
 * its stack at each return, the second one is compressed; if it does so only at
 * those that are, it is not.  Each round has one TNT bit of its own.
 */
static void rounds(void)
{
#ifdef __x86_64__
    unsigned long n = ROUNDS;

    __asm__ volatile("lea -128(%%rsp), %%rsp\n"
                     "1: call 2f\n"
                     "dec %0\n"
                     "jnz 1b\n"
                     "jmp 5f\n"
                     "2: call 3f\n"
                     "int3\n"
                     "3: lea 4f(%%rip), %%rax\n"
                     "mov %%rax, (%%rsp)\n"
                     "ret\n"
                     "4: ret\n"
                     "5: lea 128(%%rsp), %%rsp\n"
                     : "+r" (n) : : "rax", "memory", "cc");
#endif
}

static int returns(const char *type, const char *config)
{
    static struct scan s = { .who = 2 };
    struct ring r;
    uint64_t tips;
    size_t at = 0;

    if (open_ring(&r, type, config, 0, 1 << 20, true)) {
        return 1;
    }
    if (ioctl(r.fd, PERF_EVENT_IOC_ENABLE, 0)) {
        return die("enable");
    }
    rounds();
    if (ioctl(r.fd, PERF_EVENT_IOC_DISABLE, 0)) {
        return die("disable");
    }
    while (at < r.size) {
        enum packet what;
        unsigned n = get(r.bytes + at, r.size - at, &what);

        if (!n) {
            break;
        }
        packet(&s, r.bytes + at, n, what);
        at += n;
    }
    tips = s.n[TIP];
    printf("pt-probe: p1 rounds %u tips %" PRIu64 " branches %" PRIu64 " %s\n",
           ROUNDS, tips, s.branches[0] + s.branches[1] + s.branches[2],
           tips < ROUNDS ? "not-known" : tips < ROUNDS + ROUNDS / 2 ?
           "each-return-pops" : "only-compressed-returns-pop");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "scan")) {
        return scan(argv[2]);
    }
    if ((argc == 8 || argc == 9) && !strcmp(argv[1], "record")) {
        return record(argv + 2, argv[8]);
    }
    if (argc == 4 && !strcmp(argv[1], "returns")) {
        return returns(argv[2], argv[3]);
    }
    if (argc == 2 && !strcmp(argv[1], "rounds")) {
        rounds();
        return 0;
    }
    fprintf(stderr, "usage: probe record TYPE CONFIG THREAD MS SIZE FILE "
            "[FILTER] | scan FILE | returns TYPE CONFIG | rounds\n");
    return 2;
}
