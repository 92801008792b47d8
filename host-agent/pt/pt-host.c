/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this host says of Intel PT: see pt-host.h
 */

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "pt/pt-host.h"
#include "util/close.h"
#include "util/parse.h"
#include "util/whole-io.h"

#define PMUS        "/sys/bus/event_source/devices/"
#define PMU         PMUS "intel_pt/"
#define PARAMETERS  "/sys/module/kvm_intel/parameters/"
#define KERNEL      "/proc/sys/kernel/"

/* The first CPU's lines in /proc/cpuinfo are shorter, its flags too. */
#define MOST        (16u << 10)

static const char *const fields[] = {
    [PT_HOST_PT] = "pt",
    [PT_HOST_BRANCH] = "branch",
    [PT_HOST_TSC] = "tsc",
    [PT_HOST_NORETCOMP] = "noretcomp",
    [PT_HOST_PSB_PERIOD] = "psb_period",
    [PT_HOST_MTC] = "mtc",
    [PT_HOST_MTC_PERIOD] = "mtc_period",
    [PT_HOST_CYC] = "cyc",
    [PT_HOST_CYC_THRESH] = "cyc_thresh",
};

/* The begin of a file, without blanks in the end; NULL if it cannot be read */
static char *text_of(const char *root, const char *folder, const char *name)
{
    g_autofree char *path = g_strconcat(root, folder, name, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    g_autofree char *text = g_malloc(MOST + 1);
    ssize_t n = fd < 0 ? -1 : whole_read(fd, text, MOST);

    btrail_close(fd);
    if (n < 0) {
        return NULL;
    }
    text[n] = 0;
    return g_strchomp(g_steal_pointer(&text));
}

static bool number(const char *root, const char *folder, const char *name,
                   unsigned base, uint64_t most, uint64_t *value)
{
    g_autofree char *text = text_of(root, folder, name);
    uint64_t got;
    char *end;

    if (!text || !g_ascii_isxdigit(*text)) {
        return false;
    }
    got = g_ascii_strtoull(text, &end, base);
    if (end == text || *end || got > most) {
        return false;
    }
    *value = got;
    return true;
}

/* What CPUID says, which is not there in older kernels: 0 then */
static uint32_t cap(const char *root, const char *name)
{
    uint64_t value = 0;

    /* The driver prints it as "%x". */
    number(root, PMU "caps/", name, 16, UINT32_MAX, &value);
    return (uint32_t)value;
}

/* "config:14-17", or "config:1" */
static struct pt_host_bits bits_of(const char *root, const char *name)
{
    g_autofree char *text = text_of(root, PMU "format/", name);
    const char *at = text && g_str_has_prefix(text, "config:") ? text + 7 : "";
    struct pt_host_bits none = { 0 };
    uint64_t low, high;

    if (!parse_text_number(at, &at, &low)) {
        return none;
    }
    high = low;
    if (*at == '-' && !parse_text_number(at + 1, &at, &high)) {
        return none;
    }
    if (*at || low > high || high > 63 || high - low > 31) {
        return none;
    }
    return (struct pt_host_bits){
        .low = (uint8_t)low,
        .n = (uint8_t)(high - low + 1),
    };
}

static void G_GNUC_PRINTF(4, 5) say(struct pt_host *h, const char *about,
                                    bool blocks, const char *format, ...)
{
    struct pt_host_word *w = g_new0(struct pt_host_word, 1);
    va_list args;

    w->about = about;
    w->blocks = blocks;
    va_start(args, format);
    w->text = g_strdup_vprintf(format, args);
    va_end(args);
    g_ptr_array_add(h->words, w);
}

static void word_free(void *word)
{
    struct pt_host_word *w = word;

    g_free(w->text);
    g_free(w);
}

/* The value of a line "name : value"; NULL if it is another line */
static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(line, name, n)) {
        return NULL;
    }
    line += n + strspn(line + n, " \t");
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

/* Returns the first CPU's flags, or NULL. */
static char *read_cpu(struct pt_host *h, const char *root)
{
    g_autofree char *text = text_of(root, "/proc/", "cpuinfo");
    g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
    const char *value;

    /* An empty line is the end of the first CPU. */
    for (unsigned i = 0; lines[i] && *lines[i]; i++) {
        uint64_t n;

        if ((value = value_of(lines[i], "vendor_id"))) {
            g_strlcpy(h->cpu, value, sizeof(h->cpu));
        } else if ((value = value_of(lines[i], "cpu family")) &&
                   parse_text_number(value, NULL, &n) && n < 4096) {
            h->family = (unsigned)n;
        } else if ((value = value_of(lines[i], "model")) &&
                   parse_text_number(value, NULL, &n) && n < 4096) {
            h->model = (unsigned)n;
        } else if ((value = value_of(lines[i], "flags"))) {
            return g_strdup(value);
        }
    }
    return NULL;
}

/*
 * SKZ84: if the TSC of a guest has an offset, which KVM always gives it, MTC
 * comes with a wrong TMA and a byte that belongs to no packet.  CPUs as libipt
 * 2.3 has them (pt_config.c).
 */
static bool has_skz84(const struct pt_host *h)
{
    static const uint8_t models[] = {
        0x55, 0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae,
    };

    return (h->family == 6 && h->model <= UINT8_MAX &&
            memchr(models, (int)h->model, sizeof(models))) ||
           (h->family == 0x13 && h->model == 1);
}

/* Some of these cannot trace while VMX is on: IA32_VMX_MISC, bit 14. */
static bool is_broadwell(const struct pt_host *h)
{
    return h->family == 6 && (h->model == 0x3d || h->model == 0x47 ||
                              h->model == 0x4f || h->model == 0x56);
}

/* Why is there no PMU? */
static void say_none(struct pt_host *h, const char *flags)
{
    g_auto(GStrv) words = g_strsplit_set(flags ? flags : "", " \t", -1);

    if (*h->cpu && strcmp(h->cpu, "GenuineIntel")) {
        say(h, "pt", true, "this host has no Intel PT: its CPU is one of %s; "
            "its guests can be traced where QEMU emulates them",
            !strcmp(h->cpu, "AuthenticAMD") ? "AMD" : "another maker");
    } else if (!flags) {
        say(h, "pt", true, "this host's kernel has no PMU intel_pt, and its "
            "CPU is not known: /proc/cpuinfo cannot be read");
    } else if (!g_strv_contains((const char *const *)words, "intel_pt")) {
        say(h, "pt", true, "this host has no Intel PT: its CPU has none, or a "
            "hypervisor or its firmware hides it (flag intel_pt in "
            "/proc/cpuinfo); its guests can be traced where QEMU emulates "
            "them");
    } else {
        say(h, "pt", true, "the CPU has Intel PT, and the kernel no PMU "
            "intel_pt: something has used PT since the firmware started (the "
            "kernel's log says so), or the kernel has no events of Intel's "
            "CPUs (CONFIG_PERF_EVENTS, CONFIG_CPU_SUP_INTEL)");
    }
}

static void read_pmu(struct pt_host *h, const char *root)
{
    g_autofree char *ratio = text_of(root, PMU, "tsc_art_ratio");
    const char *at = ratio;
    uint64_t n, num, den;

    for (unsigned i = 0; i < PT_HOST_FIELDS; i++) {
        h->format[i] = bits_of(root, fields[i]);
    }
    h->psb_cyc = cap(root, "psb_cyc");
    h->psb_periods = h->psb_cyc ? cap(root, "psb_periods") : 0;
    h->cycle_thresholds = h->psb_cyc ? cap(root, "cycle_thresholds") : 0;
    h->mtc_periods = cap(root, "mtc") ? cap(root, "mtc_periods") : 0;
    h->linear = cap(root, "payloads_lip");
    if (number(root, PMU, "nr_addr_filters", 10, 64, &n)) {
        h->filters = (unsigned)n;
    }
    if (number(root, PMU, "max_nonturbo_ratio", 10, UINT8_MAX, &n)) {
        h->bus_ratio = (unsigned)n;
    }
    if (ratio && parse_text_number(at, &at, &num) && *at == ':' &&
        parse_text_number(at + 1, NULL, &den) && num && den &&
        num <= UINT32_MAX && den <= UINT32_MAX) {
        h->tsc_per_ctc[0] = (uint32_t)num;
        h->tsc_per_ctc[1] = (uint32_t)den;
    }
}

static void say_pmu(struct pt_host *h)
{
    g_autoptr(GString) lacks = g_string_new(NULL);

    for (unsigned i = PT_HOST_PT; i <= PT_HOST_TSC; i++) {
        if (!h->format[i].n) {
            g_string_append_printf(lacks, "%s%s", lacks->len ? ", " : "",
                                   fields[i]);
        }
    }
    if (lacks->len) {
        say(h, "pt", true, "the kernel's driver of Intel PT does not say where "
            "to ask for %s (" PMU "format): use a kernel since 5.0",
            lacks->str);
    }
}

static void say_time(struct pt_host *h, bool has_mtc)
{
    if (!has_mtc) {
        say(h, "pt-time", false, "this CPU has no MTC packets: between two "
            "PSBs the time is known where packets have it, or by cycles if "
            "they are asked for");
    } else if (!h->mtc && !h->family) {
        say(h, "pt-time", false, "no MTC packets are asked for, as this CPU is "
            "not known: with the erratum SKZ84 they break a guest's packets");
    } else if (!h->mtc) {
        say(h, "pt-time", false, "this CPU (family %u, model %#x) has the "
            "erratum SKZ84, by which MTC packets break a guest's others: none "
            "are asked for, and between two PSBs the time is known where "
            "packets have it, or by cycles if they are asked for", h->family,
            h->model);
    }
}

static void say_kvm(struct pt_host *h, const char *root)
{
    g_autofree char *mediated = text_of(root, PARAMETERS,
                                        "enable_mediated_pmu");
    uint64_t mode;

    h->mediated = mediated && (*mediated == 'Y' || *mediated == '1');
    if (number(root, PARAMETERS, "pt_mode", 10, INT_MAX, &mode) && mode) {
        say(h, "pt-kvm", true, "KVM keeps Intel PT for its guests "
            "(pt_mode=%u), and switches the host's off while they run: load "
            "the module kvm_intel without pt_mode", (unsigned)mode);
    } else if (is_broadwell(h)) {
        say(h, "pt-kvm", false, "this CPU is a Broadwell, of which some cannot "
            "trace while KVM runs: then there are no packets, and recording "
            "says so");
    } else if (h->mediated) {
        say(h, "pt-kvm", false, "with KVM's mediated PMU "
            "(enable_mediated_pmu) no interrupt of a full ring comes: rings "
            "that are overwritten, which need none, are used");
    }
}

/* Who may open an event of a vCPU's thread? */
static void say_rights(struct pt_host *h)
{
    if (h->paranoid == INT_MAX) {
        say(h, "pt-rights", false, KERNEL "perf_event_paranoid cannot be read: "
            "who may trace is not known; root may");
    } else if (h->paranoid > 2) {
        say(h, "pt-rights", false, "perf_event_paranoid is %d: it takes root, "
            "or CAP_SYS_ADMIN, where the kernel is Debian's; CAP_PERFMON where "
            "it is not.  sysctl kernel.perf_event_paranoid=2 makes CAP_PERFMON "
            "enough everywhere", h->paranoid);
    } else if (h->paranoid > 1) {
        say(h, "pt-rights", false, "perf_event_paranoid is %d: it takes root, "
            "or CAP_PERFMON", h->paranoid);
    }
}

static void say_memory(struct pt_host *h, const char *root)
{
    uint64_t kib;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (!number(root, KERNEL, "perf_event_mlock_kb", 10, INT_MAX, &kib)) {
        say(h, "pt-memory", false, KERNEL "perf_event_mlock_kb cannot be read: "
            "how large rings can be without CAP_IPC_LOCK is not known");
        return;
    }
    h->locked = (kib << 10) * (uint64_t)MAX(cpus, 1);
    /* As the kernel: perf_is_paranoid() */
    if (h->paranoid > -1) {
        say(h, "pt-memory", false, "all rings of a user can have %"
            G_GUINT64_FORMAT " KiB together, and those of a process its limit "
            "of locked memory beside (ulimit -l); larger ones take "
            "CAP_IPC_LOCK, or a larger perf_event_mlock_kb", h->locked >> 10);
    }
}

static void read_paranoid(struct pt_host *h, const char *root)
{
    g_autofree char *text = text_of(root, KERNEL, "perf_event_paranoid");
    const char *digits = text && *text == '-' ? text + 1 : text;
    uint64_t n;

    h->paranoid = INT_MAX;
    if (digits && parse_text_number(digits, NULL, &n) && n < INT_MAX) {
        h->paranoid = digits == text ? (int)n : -(int)n;
    }
}

struct pt_host *pt_host_read(const char *root)
{
    struct pt_host *h = g_new0(struct pt_host, 1);
    g_autofree char *flags = read_cpu(h, root);
    g_autofree char *atoms = g_strconcat(root, PMUS "cpu_atom/type", NULL);
    uint64_t type = 0;

    h->words = g_ptr_array_new_with_free_func(word_free);
    read_paranoid(h, root);
    h->there = number(root, PMU, "type", 10, UINT32_MAX, &type);
    if (!h->there) {
        say_none(h, flags);
        return h;
    }
    h->type = (uint32_t)type;
    read_pmu(h, root);
    h->mtc = h->mtc_periods && h->family && !has_skz84(h);
    say_pmu(h);
    say_kvm(h, root);
    say_time(h, h->mtc_periods);
    say_rights(h);
    say_memory(h, root);
    if (g_file_test(atoms, G_FILE_TEST_EXISTS)) {
        say(h, "pt-cores", false, "this CPU has cores of two kinds, and the "
            "kernel has asked one core what it can do");
    }
    return h;
}

void pt_host_free(struct pt_host *h)
{
    if (h) {
        g_ptr_array_free(h->words, TRUE);
        g_free(h);
    }
}

const char *pt_host_fault(const struct pt_host *h)
{
    for (unsigned i = 0; i < h->words->len; i++) {
        const struct pt_host_word *w = h->words->pdata[i];

        if (w->blocks) {
            return w->text;
        }
    }
    return NULL;
}

char *pt_host_words(const struct pt_host *h)
{
    GString *s = g_string_new("branches, times");

    if (h->psb_periods) {
        g_string_append(s, ", a choice of PSB periods");
    }
    if (h->mtc) {
        g_string_append(s, ", MTC");
    }
    if (h->psb_cyc) {
        g_string_append(s, ", cycles");
    }
    if (h->filters) {
        g_string_append_printf(s, ", %u address filter%s", h->filters,
                               h->filters == 1 ? "" : "s");
    }
    if (h->linear) {
        g_string_append(s, ", linear addresses of 16-bit code");
    }
    return g_string_free(s, FALSE);
}
