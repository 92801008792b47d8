/////////////////////////////////////////////////////////////////////////
//
//   Branch Trace Store (BTS)
//
//  This library is free software; you can redistribute it and/or
//  modify it under the terms of the GNU Lesser General Public
//  License as published by the Free Software Foundation; either
//  version 2 of the License, or (at your option) any later version.
//
/////////////////////////////////////////////////////////////////////////
//
// Sections are those of the SDM, vol. 3, named by their titles, which are the
// same in all editions; "Choice" marks what it leaves open.
//
// Hooks where a branch is taken (stubs/instrument.h, interrupt(), SMI and
// RSM) make records.  They are stored at the boundary of the instruction, by
// handleAsyncEvent(), before any event is looked at there: the state of the
// processor is consistent then, so a store may cause any fault or VM exit,
// and the return address of that is the next instruction.  Choice: the SDM
// says nothing about when and how precisely the stores happen.
//
// A strict model takes the opposite choice wherever software could rely on
// one: records whose stores cause a VM exit are lost, and nothing in the exit
// qualification says that it was a store; the interrupt comes a record late;
// events that VM entry injects make no record.  It is chosen by an MSR of the
// configuration, BX_MSR_BTS_MODEL, that no CPU has.  So are errata that Intel's
// specification updates have of some CPUs.
//
/////////////////////////////////////////////////////////////////////////

#define NEED_CPU_REG_SHORTCUTS 1
#include "bochs.h"
#include "cpu.h"
#include "cpuid.h"
#include "gui/siminterface.h"
#include "gui/paramtree.h"
#define LOG_THIS BX_CPU_THIS_PTR

#if BX_SUPPORT_APIC
#include "apic.h"
#endif

// "DS Save Area and IA-32e Mode Operation": the buffer management area has
// fields of 64 bits and a record has 24 bytes.  "Debug Store Support" of the
// Core microarchitecture: this format "applies to DS save area for all
// operating modes".
enum {
  DS_BTS_BASE = 0x00,
  DS_BTS_INDEX = 0x08,
  DS_BTS_MAXIMUM = 0x10,
  DS_BTS_THRESHOLD = 0x18,
  BTS_RECORD_SIZE = 24
};

// "BTS and DS Save Area", figure of the record: bit 4 of the third field
// tells that the branch was predicted.  Choice: they all are.
const Bit64u BTS_PREDICTED = 0x10;

// Not of any CPU: which model this is, and which errata it has
const unsigned BX_MSR_BTS_MODEL = 0xfff;
const Bit32u BTS_MODEL_STRICT = 1 << 0;
// "LBR, BTS, BTM May Report a Wrong Address when an Exception/Interrupt Occurs
// in 64-bit Mode": behind an instruction at the lower canonical boundary, bits
// 63 to 48 of the branch-from address are all ones.
const Bit32u BTS_ERRATUM_BU8 = 1 << 1;
// AR62, W125, "CPL-Qualified BTS May Report Incorrect Branch-From Instruction
// Address": when the CPL changes between 0 and another one.  Choice: it is the
// target of the last record.
const Bit32u BTS_ERRATUM_AR62 = 1 << 2;
// AR64: the interrupt comes with the next record.
const Bit32u BTS_ERRATUM_AR64 = 1 << 3;

// All processors have the same errata.  What these need to know is not saved with
// the state of the machine.
static Bit32u errata = 0;
static struct {
  unsigned far_cpl;      // of the instruction of the far branch in progress
  Bit64u last_to;        // of the last record that was made
} errata_state[BX_MAX_SMP_THREADS_SUPPORTED];

// How many instructions its late interrupt takes once BTS is off.  Choice: so
// many that KVM has switched the guest's BTS off by then, if the guest asks for
// it, so few that the vCPU is still loaded.
const unsigned BTS_PMI_DELAY = 750;

// Where a VMCS region keeps the records that a VM exit has left to be stored:
// beyond all fields (see VMCS_Mapping::init_generic_mapping).
const unsigned BTS_VMCS_OFFSET = 0xf00;
const Bit64u BTS_VMCS_MAGIC = BX_CONST64(0x434d565354420000);
const Bit64u BTS_VMCS_FAULTED = 0x8000;     // storing has raised an exception
const Bit64u BTS_VMCS_COUNT = 0x7fff;

///////////////////////////////////////////////////////////
// MSRs
///////////////////////////////////////////////////////////

void BX_CPU_C::bts_reset(unsigned source)
{
  BX_CPU_THIS_PTR bts.pending = BX_CPU_THIS_PTR bts.stored = 0;
  BX_CPU_THIS_PTR bts.storing = false;
  BX_CPU_THIS_PTR bts.task_switched = false;
  BX_CPU_THIS_PTR bts.branched = false;
  BX_CPU_THIS_PTR bts.smm_frozen = false;
  BX_CPU_THIS_PTR bts.pmi_late = BX_CPU_THIS_PTR bts.injecting = false;
  BX_CPU_THIS_PTR bts.pmi_delay = 0;

  // "Processor State After Reset": INIT leaves MSRs as they are.
  if (source == BX_RESET_HARDWARE) {
    bts_enumerate();
    BX_CPU_THIS_PTR bts.ds_area = 0;
    bts_set_debugctl(0);
  }
}

// What there is, by CPUID and by MSRs that software cannot change
void BX_CPU_C::bts_enumerate(void)
{
  struct cpuid_function_t leaf1, leaf7, leaf_a;
  bool unavailable = false, freeze_while_smm = false;
  Bit32u model_bits = 0;

  BX_CPU_THIS_PTR cpuid->get_cpuid_leaf(1, 0, &leaf1);
  BX_CPU_THIS_PTR cpuid->get_cpuid_leaf(7, 0, &leaf7);
  BX_CPU_THIS_PTR cpuid->get_cpuid_leaf(0xa, 0, &leaf_a);

#if BX_CONFIGURE_MSRS
  const MSR *misc_enable = BX_CPU_THIS_PTR msrs[0x1a0];
  const MSR *perf_capabilities = BX_CPU_THIS_PTR msrs[0x345];
  if (misc_enable)
    unavailable = (misc_enable->val64 & (1 << 11)) != 0;
  if (perf_capabilities && (leaf1.ecx & BX_CPUID_STD1_ECX_PDCM))
    freeze_while_smm = (perf_capabilities->val64 & (1 << 12)) != 0;
  const MSR *model = BX_CPU_THIS_PTR msrs[BX_MSR_BTS_MODEL];
  if (model)
    model_bits = (Bit32u) model->val64;
#endif

  BX_CPU_THIS_PTR bts.strict = (model_bits & BTS_MODEL_STRICT) != 0;
  errata = model_bits & ~BTS_MODEL_STRICT;

  // Vol. 4, IA32_DS_AREA: there if CPUID.1:EDX.DS[21] is set
  BX_CPU_THIS_PTR bts.ds = (leaf1.edx & BX_CPUID_STD1_EDX_DEBUG_STORE) != 0;

  // "IA32_DEBUGCTL MSR", and vol. 4.  LBR can be written without effect: there
  // are no LBRs here.
  Bit64u allowed = BX_DEBUGCTL_LBR | BX_DEBUGCTL_BTF | BX_DEBUGCTL_TR;

  // "BTS and DS Save Area": BTS is there if CPUID.1:EDX.DS[21] is set and
  // BTS_UNAVAILABLE, bit 11 of IA32_MISC_ENABLE, is not.  Choice: where it is
  // not, its bits are reserved.
  if (BX_CPU_THIS_PTR bts.ds && ! unavailable) {
    allowed |= BX_DEBUGCTL_BTS | BX_DEBUGCTL_BTINT;
    // "CPL-Qualified Branch Trace Mechanism": CPUID.1:ECX.DS-CPL[4]
    if (leaf1.ecx & BX_CPUID_STD1_ECX_DS_CPL)
      allowed |= BX_DEBUGCTL_BTS_OFF_OS | BX_DEBUGCTL_BTS_OFF_USR;
  }

  // "Freezing LBR and Performance Counters on PMI": version 2 of
  // architectural performance monitoring
  if ((leaf_a.eax & 0xff) >= 2)
    allowed |= BX_DEBUGCTL_FREEZE_LBRS_ON_PMI | BX_DEBUGCTL_FREEZE_PERFMON;

  // "IA32_DEBUGCTL MSR", bit 14: IA32_PERF_CAPABILITIES, bit 12, says so.
  if (freeze_while_smm)
    allowed |= BX_DEBUGCTL_FREEZE_WHILE_SMM;

  if (leaf7.ebx & (1 << 11))
    allowed |= BX_DEBUGCTL_RTM;

  BX_CPU_THIS_PTR bts.allowed = allowed;
}

bool BX_CPU_C::bts_debugctl_valid(Bit64u val_64)
{
  return (val_64 & ~BX_CPU_THIS_PTR bts.allowed) == 0;
}

void BX_CPU_C::bts_set_debugctl(Bit64u val_64)
{
  const Bit64u store = BX_DEBUGCTL_TR | BX_DEBUGCTL_BTS;

  BX_CPU_THIS_PTR bts.debugctl = val_64;
  BX_CPU_THIS_PTR bts.on = (val_64 & store) == store;
  BX_CPU_THIS_PTR bts.watched = BX_CPU_THIS_PTR bts.on || (val_64 & BX_DEBUGCTL_BTF) != 0;

  // There is no next record for a late interrupt to wait for.
  if (BX_CPU_THIS_PTR bts.pmi_late && ! BX_CPU_THIS_PTR bts.on &&
      BX_CPU_THIS_PTR bts.pmi_delay == 0) {
    BX_CPU_THIS_PTR bts.pmi_delay = BTS_PMI_DELAY;
    BX_CPU_THIS_PTR async_event = 1;
  }
}

bool BX_CPU_C::bts_wrmsr_debugctl(Bit64u val_64)
{
  if (! bts_debugctl_valid(val_64)) {
    BX_ERROR(("WRMSR: attempt to set reserved bits of IA32_DEBUGCTL: " FMT_LL "x", val_64));
    return false;
  }
  bts_set_debugctl(val_64);
  return true;
}

bool BX_CPU_C::bts_rdmsr_ds_area(Bit64u *val_64)
{
  *val_64 = BX_CPU_THIS_PTR bts.ds_area;
  return BX_CPU_THIS_PTR bts.ds;
}

// Vol. 2, WRMSR: a linear address that is not canonical is a #GP.
bool BX_CPU_C::bts_wrmsr_ds_area(Bit64u val_64)
{
  if (! BX_CPU_THIS_PTR bts.ds) return false;

  if (! IsCanonical(val_64)) {
    BX_ERROR(("WRMSR: attempt to write non-canonical value to IA32_DS_AREA"));
    return false;
  }
  BX_CPU_THIS_PTR bts.ds_area = val_64;
  return true;
}

void BX_CPU_C::bts_register_state(bx_param_c *parent)
{
  char name[16];
  bx_list_c *list = new bx_list_c(parent, "BTS");

  BXRS_HEX_PARAM_FIELD(list, debugctl, BX_CPU_THIS_PTR bts.debugctl);
  BXRS_HEX_PARAM_FIELD(list, ds_area, BX_CPU_THIS_PTR bts.ds_area);
  BXRS_PARAM_BOOL(list, on, BX_CPU_THIS_PTR bts.on);
  BXRS_PARAM_BOOL(list, watched, BX_CPU_THIS_PTR bts.watched);
  BXRS_PARAM_BOOL(list, branched, BX_CPU_THIS_PTR bts.branched);
  BXRS_HEX_PARAM_FIELD(list, smm_debugctl, BX_CPU_THIS_PTR bts.smm_debugctl);
  BXRS_PARAM_BOOL(list, smm_frozen, BX_CPU_THIS_PTR bts.smm_frozen);
  BXRS_PARAM_BOOL(list, strict, BX_CPU_THIS_PTR bts.strict);
  BXRS_PARAM_BOOL(list, pmi_late, BX_CPU_THIS_PTR bts.pmi_late);
  BXRS_DEC_PARAM_FIELD(list, pmi_delay, BX_CPU_THIS_PTR bts.pmi_delay);
  BXRS_PARAM_BOOL(list, injecting, BX_CPU_THIS_PTR bts.injecting);
  BXRS_HEX_PARAM_FIELD(list, pending, BX_CPU_THIS_PTR bts.pending);
  BXRS_HEX_PARAM_FIELD(list, stored, BX_CPU_THIS_PTR bts.stored);
  for (unsigned n = 0; n < BX_BTS_MAX_PENDING; n++) {
    sprintf(name, "record%u", n);
    bx_list_c *record = new bx_list_c(list, name);
    BXRS_HEX_PARAM_FIELD(record, from, BX_CPU_THIS_PTR bts.record[n].from);
    BXRS_HEX_PARAM_FIELD(record, to, BX_CPU_THIS_PTR bts.record[n].to);
  }
}

///////////////////////////////////////////////////////////
// Records
///////////////////////////////////////////////////////////

// A branch was taken; called only if BTS is on or BTF is set.
void BX_CPU_C::bts_record(Bit64u from, Bit64u to)
{
  BX_CPU_THIS_PTR bts.branched = true;
  if (! BX_CPU_THIS_PTR bts.on) return;

  // "CPL-Qualified Branch Trace Mechanism".  Choice: what counts is the CPL
  // after the branch, as it does for LBR_SELECT ("branches ending in ring 0").
  const Bit64u off = (CPL == 0) ? BX_DEBUGCTL_BTS_OFF_OS : BX_DEBUGCTL_BTS_OFF_USR;
  if (BX_CPU_THIS_PTR bts.debugctl & off) return;

  if (BX_CPU_THIS_PTR bts.pending >= BX_BTS_MAX_PENDING)
    BX_PANIC(("BTS: too many records between two instructions"));

  bx_bts_record_t *record = &BX_CPU_THIS_PTR bts.record[BX_CPU_THIS_PTR bts.pending++];
  record->from = from;
  record->to = errata_state[BX_CPU_ID].last_to = to;
  BX_CPU_THIS_PTR async_event = 1;
}

// "Last branch from": the linear address of the instruction from which the
// branch, interrupt, or exception was taken; "to": that of the branch target
// or the first instruction of the service routine.
void BX_CPU_C::bts_near_branch(bx_address from, bx_address to)
{
  bts_record(get_laddr(BX_SEG_REG_CS, from), get_laddr(BX_SEG_REG_CS, to));
}

// A far branch begins, by the instruction at RIP.
void BX_CPU_C::bts_far_begin(bx_address rip)
{
  BX_CPU_THIS_PTR bts.far_from = get_laddr(BX_SEG_REG_CS, rip);
  errata_state[BX_CPU_ID].far_cpl = CPL;
}

void BX_CPU_C::bts_far_end(void)
{
  BX_CPU_THIS_PTR bts.task_switched = false;
  if (BX_CPU_THIS_PTR bts.injecting) {
    BX_CPU_THIS_PTR bts.injecting = false;
    BX_CPU_THIS_PTR bts.branched = true;
    return;
  }

  Bit64u from = BX_CPU_THIS_PTR bts.far_from;
  if ((errata & BTS_ERRATUM_BU8) != 0 && from == BX_CONST64(0x0000800000000000))
    from |= BX_CONST64(0xffff000000000000);
  if ((errata & BTS_ERRATUM_AR62) != 0 &&
      (BX_CPU_THIS_PTR bts.debugctl & (BX_DEBUGCTL_BTS_OFF_OS | BX_DEBUGCTL_BTS_OFF_USR)) != 0 &&
      (errata_state[BX_CPU_ID].far_cpl == 0) != (CPL == 0))
    from = errata_state[BX_CPU_ID].last_to;
  bts_record(from, get_laddr(BX_SEG_REG_CS, RIP));
}

// "Task Switching": an exception after the task switch is committed occurs
// before the first instruction of the new task.  It is the second of two
// transfers, then: first to the new task, from there to the handler.
void BX_CPU_C::bts_task_switch_faulted(void)
{
  if (BX_CPU_THIS_PTR bts.on)
    bts_far_end();
  BX_CPU_THIS_PTR bts.task_switched = false;
}

///////////////////////////////////////////////////////////
// Single-stepping on branches
///////////////////////////////////////////////////////////

// "Single-Stepping on Branches": with BTF, TF makes a debug exception only of
// an instruction that branched.
bool BX_CPU_C::bts_steps_over(void)
{
  return (BX_CPU_THIS_PTR bts.debugctl & BX_DEBUGCTL_BTF) != 0 &&
         ! BX_CPU_THIS_PTR bts.branched;
}

// The same section: the processor clears BTF when it generates a debug
// exception.  Choice: one that causes a VM exit instead does not.
void BX_CPU_C::bts_debug_exception(void)
{
  bts_set_debugctl(BX_CPU_THIS_PTR bts.debugctl & ~Bit64u(BX_DEBUGCTL_BTF));
}

///////////////////////////////////////////////////////////
// Stores
///////////////////////////////////////////////////////////

void BX_CPU_C::bts_pmi(void)
{
#if BX_SUPPORT_APIC
  BX_CPU_THIS_PTR lapic->deliver_pmi();
#endif
}

void BX_CPU_C::bts_deliver_late_pmi(void)
{
  if (! BX_CPU_THIS_PTR bts.pmi_late) return;
  BX_CPU_THIS_PTR bts.pmi_late = false;
  BX_CPU_THIS_PTR bts.pmi_delay = 0;
  bts_pmi();
}

// Called at each boundary between two instructions while a late interrupt is
// delayed.
void BX_CPU_C::bts_pmi_tick(void)
{
  if (--BX_CPU_THIS_PTR bts.pmi_delay == 0)
    bts_deliver_late_pmi();
}

// Stores what is pending, at the boundary between two instructions.
void BX_CPU_C::bts_store(void)
{
  BX_CPU_THIS_PTR prev_rip = RIP; // of an event that was just delivered

  // "BTS and DS Save Area": linear addresses.  They are translated like those
  // of any other access by the processor itself, such as to descriptor
  // tables: with the paging that is in force, as supervisor.
  const Bit64u ds = BX_CPU_THIS_PTR bts.ds_area;

  BX_CPU_THIS_PTR bts.storing = true;
  while (BX_CPU_THIS_PTR bts.stored < BX_CPU_THIS_PTR bts.pending) {
    const bx_bts_record_t *record = &BX_CPU_THIS_PTR bts.record[BX_CPU_THIS_PTR bts.stored];
    const Bit64u base = system_read_qword(ds + DS_BTS_BASE);
    Bit64u index = system_read_qword(ds + DS_BTS_INDEX);
    const Bit64u maximum = system_read_qword(ds + DS_BTS_MAXIMUM);
    const Bit64u threshold = system_read_qword(ds + DS_BTS_THRESHOLD);
    bool pmi = false;
    const bool circular = (BX_CPU_THIS_PTR bts.debugctl & BX_DEBUGCTL_BTINT) == 0;

    // "BTS absolute maximum": the next byte past the end of the buffer.  The
    // manual has it one higher in another place ("a multiple of the record
    // size plus 1"); this is right either way.
    if (circular && index + BTS_RECORD_SIZE > maximum)
      index = base;
    if (index + BTS_RECORD_SIZE <= maximum) {
      system_write_qword(index, record->from);
      system_write_qword(index + 8, record->to);
      system_write_qword(index + 16, BTS_PREDICTED);
      index += BTS_RECORD_SIZE;
      // "Setting Up the BTS Buffer", note: "In order to prevent generating an
      // interrupt, when working with circular BTS buffer, SW need to set BTS
      // interrupt threshold to a value greater than BTS absolute maximum ...
      // It's not enough to clear the BTINT flag itself only."
      if (index >= threshold)
        pmi = true;
      if (circular && index + BTS_RECORD_SIZE > maximum)
        index = base;
      system_write_qword(ds + DS_BTS_INDEX, index);
    }
    else {
      // Choice: a buffer that is full, because the interrupt was not handled
      // in time, is not written past, and asks for the interrupt again.
      BX_INFO(("BTS: the buffer is full, a record is lost"));
      pmi = true;
    }
    BX_CPU_THIS_PTR bts.stored++;
    bts_deliver_late_pmi();
    if (pmi && (BX_CPU_THIS_PTR bts.strict || (errata & BTS_ERRATUM_AR64) != 0))
      BX_CPU_THIS_PTR bts.pmi_late = true;
    else if (pmi)
      bts_pmi();
  }
  BX_CPU_THIS_PTR bts.storing = false;
  BX_CPU_THIS_PTR bts.pending = BX_CPU_THIS_PTR bts.stored = 0;
}

// A store has raised an exception that will be delivered here (not by a VM
// exit).  Choice: what was not stored is lost.  An operating system that
// follows "Setting Up the DS Save Area" (pages present, accessed and dirty, no
// lazy propagation of page-table entries) never sees this.
void BX_CPU_C::bts_store_faulted(unsigned vector)
{
  BX_ERROR(("BTS: exception 0x%02x while storing, %u record(s) lost", vector,
    BX_CPU_THIS_PTR bts.pending - BX_CPU_THIS_PTR bts.stored));
  BX_CPU_THIS_PTR bts.storing = false;
  BX_CPU_THIS_PTR bts.pending = BX_CPU_THIS_PTR bts.stored = 0;
}

///////////////////////////////////////////////////////////
// SMM
///////////////////////////////////////////////////////////

// "IA32_DEBUGCTL MSR", FREEZE_WHILE_SMM: on an SMI LBR, BTF, TR and BTS are
// disabled, and what IA32_DEBUGCTL was is restored after RSM.  Without it SMM
// is traced like anything else, and through the addresses that IA32_DS_AREA
// has in the address space of SMM.
void BX_CPU_C::bts_enter_smm(void)
{
  BX_CPU_THIS_PTR bts.smm_frozen = (BX_CPU_THIS_PTR bts.debugctl & BX_DEBUGCTL_FREEZE_WHILE_SMM) != 0;
  if (BX_CPU_THIS_PTR bts.smm_frozen) {
    BX_CPU_THIS_PTR bts.smm_debugctl = BX_CPU_THIS_PTR bts.debugctl;
    bts_set_debugctl(BX_CPU_THIS_PTR bts.debugctl &
      ~(BX_DEBUGCTL_LBR | BX_DEBUGCTL_BTF | BX_DEBUGCTL_TR | BX_DEBUGCTL_BTS));
  }
}

void BX_CPU_C::bts_leave_smm(void)
{
  if (BX_CPU_THIS_PTR bts.on)
    bts_far_end();
  if (BX_CPU_THIS_PTR bts.smm_frozen)
    bts_set_debugctl(BX_CPU_THIS_PTR bts.smm_debugctl);
  BX_CPU_THIS_PTR bts.smm_frozen = false;
}

///////////////////////////////////////////////////////////
// VMX
///////////////////////////////////////////////////////////

#if BX_SUPPORT_VMX

// A VM exit, and STEP 1 is not done yet.  If a store has caused it, or the
// delivery of an event that VM entry has injected before what was kept could
// be stored, what was not stored is kept in the VMCS region and stored after
// the next VM entry with that VMCS: nothing is lost when an EPT violation is
// mended.  Choice: the SDM does not say whether something is.
//
// "Exit Qualification for EPT Violations", bit 16: the access was
// asynchronous to the instruction execution.
Bit64u BX_CPU_C::bts_vmexit(Bit32u reason, Bit64u qualification)
{
  BX_CPU_THIS_PTR bts.injecting = false;
  if (BX_CPU_THIS_PTR bts.pending == 0) return qualification;

  if (BX_CPU_THIS_PTR bts.strict) {
    BX_INFO(("BTS: VM exit %u while storing, %u record(s) lost", reason & 0xffff,
      BX_CPU_THIS_PTR bts.pending - BX_CPU_THIS_PTR bts.stored));
    BX_CPU_THIS_PTR bts.storing = false;
    BX_CPU_THIS_PTR bts.pending = BX_CPU_THIS_PTR bts.stored = 0;
    return qualification;
  }

  const bx_phy_address addr = BX_CPU_THIS_PTR vmcsptr + BTS_VMCS_OFFSET;
  unsigned count = 0;
  for (unsigned n = BX_CPU_THIS_PTR bts.stored; n < BX_CPU_THIS_PTR bts.pending; n++, count++) {
    write_physical_qword(addr + 8 + count*16, BX_CPU_THIS_PTR bts.record[n].from,
      MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
    write_physical_qword(addr + 16 + count*16, BX_CPU_THIS_PTR bts.record[n].to,
      MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
  }
  if (BX_CPU_THIS_PTR bts.storing && (reason & 0xffff) == VMX_VMEXIT_EXCEPTION_NMI)
    count |= BTS_VMCS_FAULTED;
  write_physical_qword(addr, BTS_VMCS_MAGIC | count,
      MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
  BX_INFO(("BTS: VM exit %u while storing, %u record(s) kept", reason & 0xffff,
    (unsigned)(count & BTS_VMCS_COUNT)));

  if (BX_CPU_THIS_PTR bts.storing && (reason & 0xffff) == VMX_VMEXIT_EPT_VIOLATION)
    qualification |= (1 << 16);

  BX_CPU_THIS_PTR bts.storing = false;
  BX_CPU_THIS_PTR bts.pending = BX_CPU_THIS_PTR bts.stored = 0;
  return qualification;
}

// VM entry is complete but for the injection of an event.  Choice: neither VM
// entries nor VM exits make a record; the event does.  Records kept by
// bts_vmexit() are dropped if BTS is off by now, and like those of any store
// whose fault is delivered, if a fault of their own caused the VM exit and an
// exception is injected.
void BX_CPU_C::bts_vmentry(void)
{
  // A debug exception that VM entry finds pending is delivered.
  BX_CPU_THIS_PTR bts.branched = true;

  // VM entry forgets what it does not know of.
  if (BX_CPU_THIS_PTR bts.pmi_delay)
    BX_CPU_THIS_PTR async_event = 1;

  // Type 7 is not an event that is delivered through the IDT.
  const Bit32u inject = BX_CPU_THIS_PTR vmcs.vmentry_interr_info;
  if (BX_CPU_THIS_PTR bts.strict && BX_CPU_THIS_PTR bts.on)
    BX_CPU_THIS_PTR bts.injecting = (inject >> 31) != 0 && ((inject >> 8) & 7) != 7;

  const bx_phy_address addr = BX_CPU_THIS_PTR vmcsptr + BTS_VMCS_OFFSET;
  Bit64u kept = read_physical_qword(addr, MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);

  if ((kept & ~BX_CONST64(0xffff)) != BTS_VMCS_MAGIC || (kept & 0xffff) == 0) return;

  unsigned count = kept & BTS_VMCS_COUNT;
  if (count > BX_BTS_MAX_PENDING) count = BX_BTS_MAX_PENDING;
  write_physical_qword(addr, 0, MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
  if (! BX_CPU_THIS_PTR bts.on) return;

  if ((kept & BTS_VMCS_FAULTED) != 0 && (inject & 0x80000700) == 0x80000300) {
    BX_ERROR(("BTS: an exception is injected, %u record(s) lost", count));
    return;
  }

  for (unsigned n = 0; n < count; n++) {
    BX_CPU_THIS_PTR bts.record[n].from = read_physical_qword(addr + 8 + n*16,
      MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
    BX_CPU_THIS_PTR bts.record[n].to = read_physical_qword(addr + 16 + n*16,
      MEMTYPE(BX_CPU_THIS_PTR vmcs_memtype), BX_VMCS_ACCESS);
  }
  BX_CPU_THIS_PTR bts.pending = count;
  BX_CPU_THIS_PTR async_event = 1;
}

#endif // BX_SUPPORT_VMX
