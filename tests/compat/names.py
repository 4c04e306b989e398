"""What scripts written for tinygrad 0.14 import: module, names; counted over examples and tests."""

from __future__ import annotations

IMPORTED: dict[str, str] = {
    "tinygrad": "Tensor dtypes Device TinyJit Context GlobalCounters nn Variable UOp getenv "
    "function fetch",
    "tinygrad.helpers": "getenv Context fetch DEBUG DEV colored Timing prod GlobalCounters trange "
    "to_mv tqdm round_up OSX temp flatten all_same get_child mv_address ceildiv BEAM Profiling "
    "dedup profile_marker flat_mv Target JIT WINO TRAINING ContextVar ProfileEvent "
    "ProfileRangeEvent ProfilePointEvent TracingKey diskcache diskcache_get diskcache_put "
    "diskcache_clear get_single_element cdiv cmod unwrap time_to_str ansistrip ansilen "
    "EMULATED_DTYPES cpu_events WIN partition argfix VIZ from_mv CHUNK_SIZE cpu_profile "
    "disable_gc polyN to_function_name NUM_CPU_THREADS FUSE_OPTIM NO_COLOR PROFILE data64_le lo32 "
    "hi32 pluralize to_tuple to_be32 to_be64 strides_for_shape system TC_OPT TC_SELECT IMAGE "
    "PCONTIG CHECK_OOB count fully_flatten get_shape getbits merge_dicts strip_parens word_wrap "
    "argsort all_int ansipad CACHEDB cache_dir Metadata ALLOW_DEVICE_USAGE next_power2 make_tuple "
    "round_down floordiv floormod size_to_str colorize_float canonicalize_strides "
    "flat_to_grouped resolve_pool_pads fromimport get_stacktrace i2u is_image_shape lines "
    "pad_bytes panic perf_counter_us printable select_by_name select_first_inited stderr_log "
    "suppress_finalizing to_char_p_p wait_cond START_TIME VERSION USE_TC T U data64 "
    "db_connection cpu_objdump capstone_flatdump amdgpu_disassemble fetch_fw",
    "tinygrad.uop.ops": "UOp Ops KernelInfo AxisType UPat graph_rewrite PatternMatcher GroupOp "
    "buffers rewrite_group sint AddrSpace ProgramInfo RewriteTrace sym_infer dtype_from_uop "
    "resolve TrackedPatternMatcher _substitute ParamArg shape_to_shape_arg dtypes "
    "deconstruct_function python_alu BottomUpGate _broadcast_shape broadcast_axes exec_alu "
    "tracked_ctxs tracked_keys uop_fields active_group active_rewrites _name_cnt Variable "
    "CallInfo RewriteContext SENTINEL TrackedGraphRewrite UOpMetaClass add_trace_group axis_colors "
    "axis_letters axis_to_pos consumer_map_from_toposort do_unbind gate_kernel_sink get_location "
    "identity_element match_stats multirange_str pm_contiguous_view_offset pm_unbind promo_dtype "
    "range_start range_str recursive_property remove_all_tags safe_exp2 safe_pow sint_to_uop smax "
    "smin srender ssimplify to_max_shape truncate ucount upat_deferred_compile upat_interpret",
    "tinygrad.dtype": "dtypes AddrSpace DType Invalid DTYPES_DICT _from_torch_dtype "
    "_to_torch_dtype _to_np_dtype truncate DTypeLike ConstType ConstFloat InvalidType fp8_to_float "
    "float_to_fp8 float_to_bf16 float_to_fp16 least_upper_dtype least_upper_float strong_dtype "
    "can_lossless_cast to_dtype",
    "tinygrad.nn.state": "load_state_dict get_state_dict get_parameters torch_load safe_load "
    "safe_save TensorIO fs_load fs_store safe_load_metadata tar_extract zip_extract "
    "accept_filename safe_dtypes inverse_safe_dtypes CHUNK_SIZE",
    "tinygrad.device": "Device Buffer BufferSpec ProfileDeviceEvent ProfileGraphEvent "
    "ProfileGraphEntry ProfileProgramEvent ProfileEvent Compiled Compiler CompileError TinyELF "
    "enumerate_devices_str",
    "tinygrad.tensor": "Tensor _to_np_dtype is_numpy_ndarray dtypes cast _METADATA",
    "tinygrad.nn": "Conv2d Linear optim BatchNorm2d Embedding LayerNorm GroupNorm LayerNorm2d "
    "state BatchNorm BatchNorm3d Conv1d ConvTranspose1d ConvTranspose2d InstanceNorm LSTMCell "
    "RMSNorm",
    "tinygrad.nn.optim": "SGD Adam Optimizer LAMB LARS OptimizerGroup AdamW Muon",
    "tinygrad.nn.datasets": "mnist cifar",
    "tinygrad.nn.onnx": "OnnxRunner OnnxValue",
    "tinygrad.llm.gguf": "gguf_load ggml_data_to_tensor",
    "tinygrad.function": "function _function",
    "tinygrad.mixin.elementwise": "ElementwiseMixin",
    "tinygrad.engine.realize": "run_linear compile_linear get_runtime Estimates estimate_uop "
    "pm_flatten_linear lower_and_compile pm_beam capturing time_call get_call_name link_linear "
    "get_call_arg_uops get_call_outs_ins",
    "tinygrad.engine.jit": "TinyJit JitError MultiGraphRunner graph_class GraphRunner "
    "GraphException CapturedJit",
    "tinygrad.codegen": "to_program do_to_program full_rewrite_to_sink do_devectorize",
    "tinygrad.codegen.opt": "OptOps Opt KernelOptError",
    "tinygrad.codegen.opt.search": "get_kernel_actions Opt OptOps",
    "tinygrad.codegen.opt.postrange": "Scheduler",
    "tinygrad.codegen.opt.tc": "amd_cdna_1616128",
    "tinygrad.renderer": "Estimates Renderer",
    "tinygrad.renderer.cstyle": "CStyleLanguage HIPRenderer HIPCCRenderer CUDARenderer "
    "ClangRenderer",
    "tinygrad.renderer.ptx": "PTXRenderer",
    "tinygrad.renderer.nir": "NIRRenderer LVPRenderer",
    "tinygrad.renderer.llvmir": "AMDLLVMRenderer CPULLVMRenderer",
    "tinygrad.renderer.wgsl": "WGSLRenderer",
    "tinygrad.renderer.isa.x86": "X86Renderer X86Ops RAX RBP RDI RDX RSI RSP GPR XMM def_reg imm",
    "tinygrad.renderer.isa": "IselContext ISARenderer",
    "tinygrad.renderer.amd.dsl": "s v VCC_LO NULL Inst src ttmp Reg",
    "tinygrad.uop": "Ops FastEnum auto",
    "tinygrad.uop.symbolic": "sym symbolic_simple pm_move_where_on_load simplify_valid commutative "
    "pm_simplify_valid pm_remove_invalid",
    "tinygrad.uop.spec": "spec_shared type_verify spec_program spec_tensor",
    "tinygrad.uop.weak": "pm_lower_index_dtype pm_commit_weak pm_cast_weak",
    "tinygrad.uop.upat": "_get_code upat_compile",
    "tinygrad.uop.validate": "uops_to_z3",
    "tinygrad.schedule": "schedule_cache create_linear_with_vars create_schedule",
    "tinygrad.schedule.memory": "memory_plan_rewrite",
    "tinygrad.schedule.rangeify": "BufferizeOpts pm_mops pm_const_buffer_folding",
    "tinygrad.codegen.simplify": "pm_reduce_collapse pm_flatten_range pm_split_ranges",
    "tinygrad.codegen.gpudims": "add_gpudims get_grouped_dims",
    "tinygrad.codegen.decomp.transcendental": "cody_waite_reduction frexp payne_hanek_reduction "
    "pow2if rintk",
    "tinygrad.codegen.decomp.op": "threefry2x32",
    "tinygrad.codegen.late.coalesce": "indexing_simplify",
    "tinygrad.gradient": "compute_gradient",
    "tinygrad.viz.serve": "VizData load_rewrites get_profile get_full_rewrite get_render "
    "uop_to_json addrspace_colors create_step row_tuple amd_decode",
    "tinygrad.viz.cli": "main decode_profile get_arg_parser fmt_all",
    "tinygrad.runtime.ops_amd": "AMDDevice AMDProgram ProfileSQTTEvent AMDAllocator SQTT PMC",
    "tinygrad.runtime.ops_cuda": "CUDADevice CUDAProgram CUDAAllocator",
    "tinygrad.runtime.ops_cl": "CLDevice CLProgram",
    "tinygrad.runtime.ops_disk": "DiskDevice",
    "tinygrad.runtime.ops_python": "PythonRenderer",
    "tinygrad.runtime.support.system": "PCIDevice System",
    "tinygrad.runtime.support.c": "DLL",
    "tinygrad.runtime.support.hcq": "HCQCompiled HCQBuffer MMIOInterface",
    "tinygrad.runtime.support.elf": "elf_loader",
    "tinygrad.runtime.support.compiler_cpu": "ClangCompiler CPULLVMCompiler",
    "tinygrad.runtime.support.compiler_amd": "HIPCompiler AMDLLVMCompiler",
}
